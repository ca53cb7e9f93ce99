"""Render results as one self-contained HTML page."""

from collections import Counter
from html import escape

from torch_spyre.html_pages import filter_box, page
from torch_spyre.opinfo.results import (
    DTYPES,
    MEANINGS,
    VARIANTS,
    Finding,
    Results,
    UnitResult,
    Verdict,
    combined,
    native_fraction,
)

_STYLE = """
table { width: auto } th, td { border: 1px solid var(--line); vertical-align: top }
.native { background: #2a93 } .partly { background: #8a32 } .fallback { background: #d902 }
.refused, .void { color: #888 } .wrong { background: #d336 } .crash { background: #d33b }
small, .detail { color: #888 } summary { cursor: pointer }
.detail { max-width: 34rem; overflow-wrap: anywhere }
"""


def html_report(results: Results) -> str:
    """Return the HTML text of a table of ops and dtypes."""
    verdicts = results.verdicts()
    rows = "\n".join(_row(op, by_dtype) for op, by_dtype in results.by_op().items())
    heads = "".join(f"<th>{dtype}</th>" for dtype in DTYPES)
    introduction = f"""<p>{native_fraction(verdicts.values()):.1%} of ops are native. Each is
compared with the CPU, in each dtype: forward, with <code>out=</code>, on noncontiguous inputs and,
in float32, backward.</p>"""
    ops = f"""<table id="ops"><thead><tr><th>op</th>{heads}<th>compared</th></tr></thead>
<tbody>
{rows}
</tbody></table>"""
    hint = filter_box("ops", "filter: words such as softmax wrong")
    return page(
        "PyTorch's op database on Spyre",
        [introduction, _summary(results), hint, ops],
        style=_STYLE,
    )


def _summary(results: Results) -> str:
    verdicts = results.verdicts()
    samples = results.samples()
    heads = "".join(f"<th>{dtype}</th>" for dtype in DTYPES)
    rows = []
    for verdict, meaning in MEANINGS.items():
        counts = [
            sum(actual is verdict and key[1] == dtype for key, actual in verdicts.items())
            for dtype in DTYPES
        ]
        cells = "".join(f"<td>{count}</td>" for count in (*counts, samples[verdict]))
        rows.append(f'<tr><th class="{verdict}">{verdict}</th>{cells}<td>{meaning}</td></tr>')
    return (
        f"<table><thead><tr><th>ops</th>{heads}<th>samples</th><th>meaning</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _row(op: str, by_dtype: dict[str, list[UnitResult]]) -> str:
    cells, keywords = [], [op]
    for dtype in DTYPES:
        units = by_dtype.get(dtype)
        if not units:
            cells.append("<td></td>")
            continue
        verdict = combined(Counter(unit.verdict for unit in units))
        keywords += [dtype, verdict]
        cells.append(f'<td class="{verdict}">{_cell(verdict, units)}</td>')
    notes = {unit.note for units in by_dtype.values() for unit in units if unit.note}
    note = escape("; ".join(sorted(notes)))
    return (
        f'<tr data-words="{escape(" ".join(keywords).lower())}"><th>{escape(op)}</th>'
        f"{''.join(cells)}<td><small>{note}</small></td></tr>"
    )


def _cell(verdict: Verdict, units: list[UnitResult]) -> str:
    units = sorted(units, key=lambda unit: VARIANTS.index(unit.unit.variant))
    lines = []
    for unit in units:
        counts = ", ".join(f"{count} {name}" for name, count in unit.counts.items())
        line = f"{unit.unit.variant}: {counts or 'no samples'}"
        if unit.fallbacks:
            line += f" (CPU: {', '.join(sorted(unit.fallbacks))})"
        lines.append(f"<li>{escape(line)}{''.join(map(_finding, unit.findings))}</li>")
    return f"<details><summary>{verdict}</summary><ul>{''.join(lines)}</ul></details>"


def _finding(finding: Finding) -> str:
    text = f"sample {finding.index}, {finding.verdict}: {finding.detail} {finding.sample}"
    return f'<div class="detail">{escape(text)}</div>'

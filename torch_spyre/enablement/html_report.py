"""Render findings as one self-contained HTML page."""

from collections.abc import Iterable
from html import escape

from torch_spyre.enablement import formatting
from torch_spyre.enablement.findings import VERDICTS, Findings
from torch_spyre.enablement.json_report import as_json
from torch_spyre.enablement.terminal_report import calls

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --native: #2a8; --fallback: #c80; --missing: #d33 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 90rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line) }
td { vertical-align: top; overflow-wrap: anywhere }
th { cursor: pointer; white-space: nowrap } code { font-size: 12px }
.bar { display: flex; height: 1.2rem; border-radius: .3rem; overflow: hidden; margin: 1rem 0 }
.bar .native { background: var(--native) } .bar .fallback { background: var(--fallback) }
.bar .missing { background: var(--missing) }
td.native, td.agrees { color: var(--native) } td.fallback, td.differs { color: var(--fallback) }
td.missing, td.fails { color: var(--missing); font-weight: 600 }
.note { border-left: .3rem solid var(--fallback); padding: .3rem 1rem }
.quiet { opacity: .75 } input { font: inherit; padding: .3rem .6rem; width: 20rem }
"""
# Clicking a header sorts its table; the input box filters the table of ops.
_SCRIPT = """
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const order = head.dataset.order = -(head.dataset.order || -1);
  const key = row => row.cells[column].textContent;
  const rows = [...body.rows].sort((a, b) =>
    order * key(a).localeCompare(key(b), undefined, {numeric: true}));
  body.append(...rows);
};
const box = document.getElementById("filter");
box.oninput = () => {
  for (const row of document.getElementById("ops").tBodies[0].rows)
    row.hidden = !row.textContent.toLowerCase().includes(box.value.toLowerCase());
};
"""


def html_page(findings: Findings) -> str:
    """Return the page; the findings are embedded in it as JSON."""
    title = f"{findings.name} on Spyre"
    # An unescaped "</" would end the script element.
    data = as_json(findings).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{_STYLE}</style></head>
<body>
<h1>{escape(title)}</h1>
<p>{escape(formatting.model_summary(findings))}. From {escape(findings.source)}.<br>
{findings.mode.capitalize()}, batch {findings.batch}, prompt of {findings.prompt}, on
{escape(findings.card)}, torch {escape(findings.torch_version)}.</p>
{_notes(findings)}
<h2>Ops: {formatting.native_share(findings)} native</h2>
{_bar(findings)}
<h2>Device time of the whole model</h2>
{_times(findings)}
<p class="quiet">{escape(formatting.ESTIMATE)}</p>
<h2>Modules</h2>
<p class="quiet">The verdict of a module class is that of its worst op. Its modules were run on the
card in a small model with all other modules on the CPU. The error is that of their outputs against
float32, relative to the norm; the bound is the error that rounding to the card's format explains.
</p>
{_modules(findings)}
<h2>Calls</h2>
<p><input id="filter" placeholder="filter" aria-label="filter"></p>
{_ops(findings)}
<script type="application/json" id="findings">{data}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _notes(findings: Findings) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in findings.notes)


def _bar(findings: Findings) -> str:
    counts = {verdict: findings.count(verdict) for verdict in VERDICTS}
    bars = "".join(
        f'<div class="{verdict}" style="flex: {count}" title="{count} {verdict}"></div>'
        for verdict, count in counts.items()
    )
    text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f'<div class="bar">{bars}</div><p>{text}, of {len(findings.ops)} distinct calls.</p>'


def _times(findings: Findings) -> str:
    if not findings.times:
        return "<p>Unknown: see the notes.</p>"
    rows = [
        [
            (time.step, ""),
            (str(time.tokens), ""),
            (formatting.seconds(time.seconds), ""),
            (formatting.seconds(time.seconds_per_token), ""),
            (formatting.rate(time.tokens_per_second), ""),
            (str(time.launches), ""),
            (str(time.fallbacks), "fallback" if time.fallbacks else ""),
            (formatting.amount(time.ddr_bytes), ""),
            (formatting.extrapolation(time), ""),
        ]
        for time in findings.times
    ]
    heads = "Step|Tokens|Device time|A token|Tokens/s|Kernels|Ops on the CPU|DDR traffic|Of which"
    return _table("times", heads, rows)


def _modules(findings: Findings) -> str:
    rows = []
    for kind in findings.modules:
        outcome = kind.attempt.outcome if kind.attempt else ""
        rows.append(
            [
                (kind.name, ""),
                (str(kind.instances), ""),
                (formatting.parameters(kind.parameters), ""),
                (kind.example, ""),
                (kind.verdict, kind.verdict),
                *((str(kind.cases.get(verdict, 0)), "") for verdict in VERDICTS),
                (formatting.attempt(kind.attempt), outcome),
            ]
        )
    heads = "Module|Number|Parameters of one|First|Ops|Native|Fallback|Missing|Tried on the card"
    return _table("modules", heads, rows)


def _ops(findings: Findings) -> str:
    rows = [
        [
            (case.op, ""),
            (case.signature, ""),
            (case.eager, case.eager),
            (case.compiled, case.compiled),
            (case.how, ""),
            (calls(case), ""),
            (", ".join(case.modules), ""),
            (case.location, ""),
            (case.reason, ""),
        ]
        for case in findings.ops
    ]
    return _table("ops", "Op|Arguments|Eager|Compiled|How|Calls|Called by|Where|Why not", rows)


def _table(name: str, heads: str, rows: Iterable[list[tuple[str, str]]]) -> str:
    """Return a table; a cell is a pair of text and CSS class."""
    head = "".join(f"<th>{escape(title)}</th>" for title in heads.split("|"))
    body = "".join(f"<tr>{''.join(_cell(*cell) for cell in row)}</tr>\n" for row in rows)
    return f'<table id="{name}"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'


def _cell(text: str, style: str) -> str:
    return f'<td class="{style}">{escape(text)}</td>'

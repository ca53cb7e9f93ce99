"""Render findings as one self-contained HTML page."""

from html import escape

from torch_spyre.enablement import formatting
from torch_spyre.enablement.findings import VERDICTS, Findings
from torch_spyre.enablement.json_report import as_json
from torch_spyre.enablement.terminal_report import calls
from torch_spyre.html_pages import Cell, filter_box, page, table

_STYLE = """
:root { --native: var(--good); --fallback: var(--warning); --missing: var(--bad) }
.bar { display: flex; height: 1.2rem; border-radius: .3rem; overflow: hidden; margin: 1rem 0 }
.bar .native { background: var(--native) } .bar .fallback { background: var(--fallback) }
.bar .missing { background: var(--missing) }
td.native, td.agrees { color: var(--native) } td.fallback, td.differs { color: var(--fallback) }
td.missing, td.fails { color: var(--missing); font-weight: 600 }
"""
_MODULES = """<h2>Modules</h2>
<p class="quiet">The verdict of a module class is that of its worst op. Its modules were run on the
card in a small model with all other modules on the CPU. The error is that of their outputs against
float32, relative to the norm; the bound is the error that rounding to the card's format explains.
</p>"""


def html_page(findings: Findings) -> str:
    """Return the page; the findings are embedded in it as JSON."""
    head = f"""<p>{escape(formatting.model_summary(findings))}. From {escape(findings.source)}.<br>
{findings.mode.capitalize()}, batch {findings.batch}, prompt of {findings.prompt}, on
{escape(findings.card)}, torch {escape(findings.torch_version)}.</p>"""
    parts = [
        head,
        _notes(findings),
        f"<h2>Ops: {formatting.native_share(findings)} native</h2>",
        _bar(findings),
        "<h2>Device time of the whole model</h2>",
        _times(findings),
        f'<p class="quiet">{escape(formatting.ESTIMATE)}</p>',
        _MODULES,
        _modules(findings),
        "<h2>Calls</h2>",
        filter_box("ops"),
        _ops(findings),
    ]
    return page(f"{findings.name} on Spyre", parts, style=_STYLE, data=as_json(findings))


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
    rows: list[list[Cell | str]] = [
        [
            time.step,
            str(time.tokens),
            formatting.seconds(time.seconds),
            formatting.seconds(time.seconds_per_token),
            formatting.rate(time.tokens_per_second),
            str(time.launches),
            Cell(str(time.fallbacks), "fallback" if time.fallbacks else ""),
            formatting.amount(time.ddr_bytes),
            formatting.extrapolation(time),
        ]
        for time in findings.times
    ]
    heads = "Step|Tokens|Device time|A token|Tokens/s|Kernels|Ops on the CPU|DDR traffic|Of which"
    return table("times", heads.split("|"), rows)


def _modules(findings: Findings) -> str:
    rows: list[list[Cell | str]] = []
    for kind in findings.modules:
        outcome = kind.attempt.outcome if kind.attempt else ""
        rows.append(
            [
                kind.name,
                str(kind.instances),
                formatting.parameters(kind.parameters),
                kind.example,
                Cell(kind.verdict, kind.verdict),
                *(str(kind.cases.get(verdict, 0)) for verdict in VERDICTS),
                Cell(formatting.attempt(kind.attempt), outcome),
            ]
        )
    heads = "Module|Number|Parameters of one|First|Ops|Native|Fallback|Missing|Tried on the card"
    return table("modules", heads.split("|"), rows)


def _ops(findings: Findings) -> str:
    rows: list[list[Cell | str]] = [
        [
            case.op,
            case.signature,
            Cell(case.eager, case.eager),
            Cell(case.compiled, case.compiled),
            case.how,
            calls(case),
            ", ".join(case.modules),
            case.location,
            case.reason,
        ]
        for case in findings.ops
    ]
    heads = "Op|Arguments|Eager|Compiled|How|Calls|Called by|Where|Why not"
    return table("ops", heads.split("|"), rows)

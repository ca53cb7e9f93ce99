"""Print findings in the terminal."""

from textwrap import shorten

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from torch_spyre.enablement import formatting
from torch_spyre.enablement.findings import VERDICTS, Findings, OpCase, Verdict

_COLOURS: dict[Verdict, str] = {"native": "green", "fallback": "yellow", "missing": "red"}
# The HTML report lists all ops.
_MAX_ROWS = 40
_MAX_REASON_CHARACTERS = 120
_BOX = box.SIMPLE_HEAD
# Narrow, so that tables fit in 80 columns.
_PADDING = (0, 1, 0, 0)


def show(findings: Findings, console: Console) -> None:
    parts: list[RenderableType] = [_summary(findings), "", _modules(findings)]
    if any(case.verdict(findings.mode) != "native" for case in findings.ops):
        parts += ["", _ops(findings)]
    if findings.times:
        parts += ["", _times(findings), Text(formatting.ESTIMATE, style="dim")]
    parts += [Text(f"Note: {note}", style="yellow") for note in findings.notes]
    console.print(Group(*parts))


def _summary(findings: Findings) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("model", Text(f"{findings.name}: {formatting.model_summary(findings)}"))
    table.add_row("from", Text(findings.source))
    table.add_row("run", f"{findings.mode}, batch {findings.batch}, prompt {findings.prompt}")
    counts = ", ".join(f"{findings.count(verdict)} {verdict}" for verdict in VERDICTS)
    calls = "distinct calls up to where the model stops" if findings.stop else "distinct calls"
    table.add_row(
        "ops", f"{counts} ({formatting.native_share(findings)} of the {calls} are native)"
    )
    return table


def _modules(findings: Findings) -> Table:
    table = Table(
        "Module", "Number", *VERDICTS, "Tried: error of bound",
        title="Modules", box=_BOX, padding=_PADDING,
    )  # fmt: skip
    for kind in findings.modules:
        counts = [str(kind.cases.get(verdict, 0)) for verdict in VERDICTS]
        attempt = Text(formatting.attempt(kind.attempt))
        name = Text(kind.name, style=_COLOURS[kind.verdict])
        table.add_row(name, str(kind.instances), *counts, attempt)
    return table


def _ops(findings: Findings) -> Table:
    table = Table(
        "Op", "Arguments", "Eager", "Compiled", "Calls", "Where and why",
        title="Not native", box=_BOX, padding=_PADDING,
    )  # fmt: skip
    cases = [case for case in findings.ops if case.verdict(findings.mode) != "native"]
    cases.sort(key=lambda case: -VERDICTS.index(case.verdict(findings.mode)))
    for case in cases[:_MAX_ROWS]:
        table.add_row(
            Text(case.op),
            Text(case.signature),
            _verdict(case.eager),
            _verdict(case.compiled),
            calls(case),
            Text(_where_and_why(case)),
        )
    if len(cases) > _MAX_ROWS:
        table.caption = f"{len(cases) - _MAX_ROWS} more are in the HTML report and the JSON"
    return table


def _times(findings: Findings) -> Table:
    table = Table(
        "Step", "Tokens", "Device time", "A token", "Tokens/s", "Kernels", "On the CPU", "DDR",
        title="Estimated device time, whole model", box=_BOX, padding=_PADDING,
    )  # fmt: skip
    for time in findings.times:
        table.add_row(
            time.step,
            str(time.tokens),
            formatting.seconds(time.seconds),
            formatting.seconds(time.seconds_per_token),
            formatting.rate(time.tokens_per_second),
            str(time.launches),
            str(time.fallbacks),
            formatting.amount(time.ddr_bytes),
        )
    return table


def _where_and_why(case: OpCase) -> str:
    reason = shorten(case.reason, _MAX_REASON_CHARACTERS, placeholder=" ...")
    where = formatting.where(case)
    return f"{where}: {reason}" if where else reason


def calls(case: OpCase) -> str:
    return ", ".join(f"{count} in {step}" for step, count in case.calls.items())


def _verdict(verdict: Verdict) -> Text:
    return Text(verdict, style=_COLOURS[verdict])

"""`spyre knobs`: every environment variable and its value, and the text of docs/knobs.md."""

import json as json_format
import sys
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torch_spyre.errors import KnobError
from torch_spyre.knob_kinds import FallbackSetting
from torch_spyre.knobs import STANDINGS, all_knobs, warn_about_unknown_variables

INTRODUCTION = """\
# Environment variables

*Which environment variables does Torch-Spyre read, and what do they do?*

This page lists every environment variable with its allowed values, default and effect.
`spyre knobs` prints the same table with the current values. An empty value counts as unset unless
the variable allows it. A value that is not allowed raises an error that names the variable. A
variable that begins with `SPYRE_` or `TORCH_SPYRE_` and is not listed here has no effect: `import
torch` warns about it, and proposes the variable with the nearest name.

The page is generated from `torch_spyre/knobs.py` by
`python -m torch_spyre.tools.knobs_command --markdown > docs/knobs.md`.
"""


@dataclass(frozen=True)
class KnobRow:
    """One environment variable in the output."""

    name: str
    section: str
    value: object  # None if unset or invalid
    is_set: bool
    default: str
    allowed: str
    standing: str
    help: str
    error: str | None


def collect() -> list[KnobRow]:
    """Return all knobs with their current values."""
    rows = []
    for knob in all_knobs():
        value, error = None, None
        try:
            value = knob.value()
        except KnobError as problem:
            error = str(problem)
        rows.append(
            KnobRow(
                name=knob.name,
                section=knob.section,
                value=str(value) if isinstance(value, FallbackSetting) else value,
                is_set=knob.text() is not None,
                default=knob.default_text,
                allowed=knob.kind.allowed,
                standing=knob.standing,
                help=knob.help,
                error=error,
            )
        )
    return rows


def markdown() -> str:
    """Return the text of docs/knobs.md, which does not depend on the environment."""
    lines = [INTRODUCTION, "| Standing | Meaning |", "|---|---|"]
    lines += [f"| {standing} | {meaning} |" for standing, meaning in STANDINGS.items()]
    for section, rows in groupby(collect(), key=attrgetter("section")):
        lines += ["", f"## {section}", ""]
        lines += ["| Variable | Allowed | Default | Standing | Effect |", "|---|---|---|---|---|"]
        for row in rows:
            cells = (f"`{row.name}`", row.allowed, row.default, row.standing, row.help)
            lines.append(f"| {' | '.join(cell.replace('*', chr(92) + '*') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def knobs(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown_: Annotated[
        bool, typer.Option("--markdown", help="Print docs/knobs.md, without values.")
    ] = False,
) -> None:
    """Show every environment variable: its value, default and effect."""
    if json and markdown_:
        raise typer.BadParameter("--json and --markdown are mutually exclusive")
    if markdown_:
        print(markdown(), end="")
        return
    warn_about_unknown_variables()
    rows = collect()
    if json:
        print(json_format.dumps([asdict(row) for row in rows], indent=2))
    else:
        _print_table(rows)
    errors = [row.error for row in rows if row.error is not None]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    if errors:
        raise typer.Exit(1)


def _print_table(rows: list[KnobRow]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for section, section_rows in groupby(rows, key=attrgetter("section")):
        table.add_row(Text(f"\n{section}", style="bold"))
        for row in section_rows:
            # Value and effect are in one column: two columns would exceed 80 characters.
            table.add_row(f"  {row.name}", Text.assemble(_format_value(row), "\n", row.help))
    Console().print(table)


def _format_value(row: KnobRow) -> Text:
    if not row.is_set:
        return Text(f"{row.default} (default)", style="dim")
    default = (f" (default {row.default})", "dim")
    if row.error is not None:
        return Text.assemble(("not valid", "red"), default)
    return Text.assemble((str(row.value), "green"), default)


if __name__ == "__main__":
    typer.run(knobs)

"""Entry point of the command `aiu-smi`: a line for each card, again and again.

It has the sub-command, the options and the columns of the monitor of the hardware, so that scripts
which read its output work with emulated cards.
"""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer

from torch_spyre import __version__
from torch_spyre.errors import OutputError
from torch_spyre.tools.cli import run
from torch_spyre.tools.smi_command import MAX_SECONDS, MIN_SECONDS, check_seconds

DEFAULT_SECONDS = 1.0
GROUP_LETTERS = "DMPU"
ALL_GROUPS = "A"
DEFAULT_GROUPS = "D M P"

app = typer.Typer(
    name="aiu-smi",
    help="Monitor IBM Spyre cards, including emulated ones; see also `spyre smi`.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Period = Annotated[
    float,
    typer.Option(
        "--delay",
        "-d",
        min=MIN_SECONDS,
        max=MAX_SECONDS,
        callback=check_seconds,
        help="Seconds between two lines of a card.",
    ),
]
Csv = Annotated[bool, typer.Option("--csv", "-s", help="Print CSV.")]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Write to this file.")]
Groups = Annotated[
    str,
    typer.Option(
        "--groups",
        "-g",
        help="Groups of columns: D host and device, M memory, P PCIe and RDMA, U other units, "
        "A all.",
    ),
]
MemoryDetails = Annotated[
    bool, typer.Option("--mem-details", help="Show used, peak and total memory.")
]
Count = Annotated[int | None, typer.Option("--count", "-c", min=1, help="End after so many.")]


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"aiu-smi {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


@app.callback(invoke_without_command=True)
def default(
    context: typer.Context,
    delay: Period = DEFAULT_SECONDS,
    csv: Csv = False,
    file: File = None,
    groups: Groups = DEFAULT_GROUPS,
    mem_details: MemoryDetails = False,
    count: Count = None,
    version: Version = False,
) -> None:
    """Monitor IBM Spyre cards. Without a command, as with dmon."""
    if context.invoked_subcommand is None:
        _stream(delay, csv, file, groups, mem_details, count)


@app.command()
def dmon(
    delay: Period = DEFAULT_SECONDS,
    csv: Csv = False,
    file: File = None,
    groups: Groups = DEFAULT_GROUPS,
    mem_details: MemoryDetails = False,
    count: Count = None,
) -> None:
    """Print a line for each card in every period, until Ctrl-C.

    A card that no process has open shows `-`, and so does what is not modelled.
    """
    _stream(delay, csv, file, groups, mem_details, count)


def _selected_groups(text: str) -> str:
    letters = text.replace(",", "").replace(" ", "").upper()
    if not letters or set(letters) - {*GROUP_LETTERS, ALL_GROUPS}:
        raise typer.BadParameter(
            f"{text!r} has other letters than {', '.join(GROUP_LETTERS)} and {ALL_GROUPS}",
            param_hint="--groups",
        )
    return GROUP_LETTERS if ALL_GROUPS in letters else letters


def _stream(
    seconds: float,
    is_csv: bool,
    path: Path | None,
    groups: str,
    has_memory_details: bool,
    count: int | None,
) -> None:
    letters = _selected_groups(groups)
    # Imported here: pydantic and the card description are slow.
    from torch_spyre.tools.dmon_columns import select
    from torch_spyre.tools.dmon_stream import Format, stream

    form = Format(select(letters, has_memory_details), is_csv)
    try:
        with _output(path) as file:
            stream(file, form, seconds, count)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # The reader has ended, as `head` does. Python must not write the remainder at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output(path: Path | None) -> AbstractContextManager[TextIO]:
    if path is None:
        return nullcontext(sys.stdout)
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise OutputError(path, error) from None


def main() -> None:
    run(app)


if __name__ == "__main__":
    main()

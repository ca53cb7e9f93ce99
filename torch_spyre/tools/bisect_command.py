"""`spyre bisect`: find the kernel, pass or op that makes a program's results wrong."""

import json as json_format
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre.errors import InputError

if TYPE_CHECKING:
    from torch_spyre.debugging.bisect.levels import Bisection


def bisect(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="A Python program.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="Its arguments.")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0.0, help="Difference of printed numbers that counts as rounding, relative."
        ),
    ] = 0.05,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder for dumps and outputs of the runs; a new temporary one if unset."
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=1.0, help="Seconds after which a run is stopped.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find the first kernel, pass or op at which the results of SCRIPT leave their reference.

    The script runs several times, each in a process of its own. Exit codes: 0 if nothing diverges,
    1 if something does, 2 if the script fails for another reason.
    """
    from torch_spyre.debugging.bisect.scripts import Script
    from torch_spyre.debugging.bisect.search import bisect as search

    if not script.is_file():
        raise InputError(str(script), "there is no such file")
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="spyre_bisect_"))
    folder.mkdir(parents=True, exist_ok=True)
    run = Script(script, arguments or [], folder.resolve(), timeout)
    result = search(run, tolerance)
    if json:
        print(json_format.dumps(_as_dict(result), indent=2))
    else:
        _print(result, folder)
    raise typer.Exit(result.exit_code)


def _as_dict(result: "Bisection") -> dict[str, object]:
    from dataclasses import asdict

    values = asdict(result)
    values["levels"] = [{**level, "verdict": level["verdict"].value} for level in values["levels"]]
    values["folder"] = None if result.folder is None else str(result.folder)
    return {**values, "exit_code": result.exit_code}


def _print(result: "Bisection", folder: Path) -> None:
    console = Console(markup=False, highlight=False, soft_wrap=True)
    table = Table("Level", "Result", "What right would mean", "Detail", box=None, pad_edge=False)
    for level in result.levels:
        table.add_row(level.name, level.verdict.value, level.establishes, level.detail)
    Console(markup=False, highlight=False, width=160).print(table)
    console.print()
    if result.has_failed:
        console.print(f"The script fails on the CPU too:\n{result.message}")
        return
    if not result.guilty:
        console.print("Nothing diverges.")
        return
    facts = {
        "guilty": result.guilty,
        "op": result.op,
        "pass": result.compiler_pass,
        "kernel": result.kernel,
        "from": result.origin,
        "line": result.line,
        "right if": ", ".join(result.right_with),
        "dump": "" if result.folder is None else str(result.folder),
        "replay": "" if result.folder is None else f"python {result.folder / 'replay.py'}",
        "files": str(folder),
    }
    for name, text in facts.items():
        if text:
            console.print(f"{name:8} {text}")
    if result.message:
        console.print(f"\n{result.message}")

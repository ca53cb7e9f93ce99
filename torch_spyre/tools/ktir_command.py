"""`spyre ktir`: read, check, print, compile, time and run KTIR files."""

import json as json_format
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre.errors import SpyreError

if TYPE_CHECKING:
    from torch_spyre.ktir import Module
    from torch_spyre.timing import Timing

app = typer.Typer(
    help="Read, check, print, compile, time and run kernels in KTIR.", no_args_is_help=True
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A KTIR text.", show_default=False)]
FunctionName = Annotated[
    str | None, typer.Option("--function", "-f", help="Which function, if there are several.")
]
Scalars = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Value of a scalar argument; repeatable."),
]


class OutputError(SpyreError):
    """A result cannot be written to where the user wants it."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"cannot write {str(path)!r}: {error.strerror or error}")


def read(file: Path, *, strict: bool = False) -> "Module":
    """The module of a file; its warnings go to stderr, one line each."""
    from torch_spyre import ktir

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ktir.KtirWarning)
        module = ktir.load(file, strict=strict)
    for warning in found:
        print(f"warning: {warning.message}", file=sys.stderr)
    return module


def chosen(module: "Module", function: str | None) -> str:
    """The function named, or the only one."""
    from torch_spyre.ktir.errors import KtirError

    if function is not None:
        return function
    if len(module.functions) == 1:
        return next(iter(module.functions))
    names = ", ".join(module.functions)
    if not names:
        raise KtirError("the file has no function")
    raise KtirError(f"the file has several functions: {names}; choose one with --function")


def scalars_of(assignments: list[str] | None) -> dict[str, int | float | bool]:
    values = {}
    for assignment in assignments or []:
        name, separator, text = assignment.partition("=")
        value = _number(text.strip())
        if not separator or not name.strip() or value is None:
            raise typer.BadParameter(f"{assignment!r} is not NAME=NUMBER", param_hint="--set")
        values[name.strip().removeprefix("%")] = value
    return values


def _number(text: str) -> int | float | bool | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for parse in (lambda found: int(found, 0), float):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


@app.command()
def verify(
    file: File,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what only the interpreter allows, too.")
    ] = False,
) -> None:
    """Check a file, and show its functions."""
    module = read(file, strict=strict)
    count = len(module.functions)
    print(f"ok: {count} function{'' if count == 1 else 's'}")
    if not count:
        return
    table = Table("Function", "Grid", "Arguments", box=None)
    for function in module.functions.values():
        arguments = ", ".join(f"{found.name}: {found.type}" for found in function.arguments)
        table.add_row(function.name, "x".join(map(str, function.grid)), arguments or "none")
    Console(markup=False, highlight=False).print(table)


@app.command("print")
def print_text(
    file: File,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
) -> None:
    """Print a file as this package would write it."""
    text = str(read(file)).rstrip("\n") + "\n"
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(output, error) from error


@app.command()
def compile(
    file: File,
    function: FunctionName = None,
    set: Scalars = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the program to a file.")
    ] = None,
    listing: Annotated[bool, typer.Option("--listing", help="Print the instructions.")] = False,
) -> None:
    """Compile a function to a device program."""
    scalars = scalars_of(set)
    module = read(file)
    program = module.compile(chosen(module, function), **scalars)
    if output is not None:
        program.save(output)
    if listing:
        print(program.listing(), end="")
        return
    content = program.content
    print(
        f"{program.name}: {len(content.code)} instructions, {content.scratchpad_bytes} bytes of "
        f"scratchpad, hash {program.hash[:16]}"
    )


@app.command()
def time(
    file: File,
    function: FunctionName = None,
    set: Scalars = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a function would take on the card. Nothing runs."""
    scalars = scalars_of(set)
    module = read(file)
    timing = module.estimate(chosen(module, function), **scalars)
    if json:
        print(json_format.dumps(timing.to_dict(), indent=2))
    else:
        _print_timing(timing)


def _print_timing(timing: "Timing") -> None:
    console = Console(markup=False, highlight=False)
    facts = Table.grid(padding=(0, 2))
    used = timing.utilisation
    for label, fact in (
        ("time", f"{timing.time_us:.3f} us, {timing.cycles} cycles"),
        ("bound by", timing.bound_by),
        ("device memory", f"{timing.ddr_read_bytes} B read, {timing.ddr_write_bytes} B written"),
        ("scratchpad", f"{timing.lx_bytes} B moved, {timing.lx_peak_bytes} B at most in use"),
        ("ring", f"{timing.ring_byte_hops} byte hops"),
        ("work", f"{timing.macs} multiply-adds, {timing.sfp_lane_ops} vector lane ops"),
        (
            "utilisation",
            f"pt {used.pt:.1%}, sfp {used.sfp:.1%}, ddr {used.ddr:.1%}, lx {used.lx:.1%}, "
            f"ring {used.ring:.1%}, cores {used.core_active:.1%}",
        ),
    ):
        facts.add_row(label, fact)
    console.print(facts)
    if not timing.steps:
        return
    table = Table("Step", "Op", "Cores", "Start us", "Time us", "Busiest", box=None)
    for step in timing.steps:
        busy = {
            "pt": step.busy.pt,
            "sfp": step.busy.sfp,
            "ddr": step.busy.ddr,
            "lx": step.busy.lx,
            "ring": step.busy.ring,
        }
        start, duration = (f"{found / 1e6:.3f}" for found in (step.start_ps, step.duration_ps))
        busiest = max(busy, key=lambda unit: busy[unit])
        table.add_row(step.name, step.op, str(step.cores), start, duration, busiest)
    console.print(table)

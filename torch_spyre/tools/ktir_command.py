"""`spyre ktir`: verify, print, compile, time and run KTIR files."""

import json as json_format
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre.errors import InputError
from torch_spyre.text_reports import write_text
from torch_spyre.tools.ktir_random_arrays import random_arrays, random_scalars
from torch_spyre.tools.messages import print_warning

if TYPE_CHECKING:
    from torch_spyre.backend.program.program import Program
    from torch_spyre.ktir import Function, Module
    from torch_spyre.ktir.source import Source
    from torch_spyre.timing import Timing

    Values = dict[str, Any]

app = typer.Typer(
    help="Verify, print, compile, time and run kernels in KTIR.", no_args_is_help=True
)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A KTIR file, or - for standard input.", show_default=False
    ),
]
FunctionName = Annotated[
    str | None, typer.Option("--function", "-f", help="The function, if there are several.")
]
Scalars = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Value of a scalar argument; repeatable."),
]


def read(file: Path, *, strict: bool = False) -> "Module":
    """Load a module from a file or standard input; print its warnings to stderr, a line each."""
    from torch_spyre import ktir
    from torch_spyre.ktir.module import load_source

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ktir.KtirWarning)
        if str(file) == "-":
            module = load_source(_standard_input(), strict=strict)
        else:
            module = ktir.load(file, strict=strict)
    for warning in caught:
        print_warning(str(warning.message))
    return module


def _standard_input() -> "Source":
    from torch_spyre.errors import KtirError
    from torch_spyre.ktir.source import Source

    try:
        return Source("<stdin>", sys.stdin.buffer.read().decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise KtirError(f"cannot read standard input: {error}") from error


def select_function(module: "Module", function: str | None) -> str:
    """Return the name of the requested function, or of the only one."""
    from torch_spyre.errors import KtirError

    if function is not None:
        return function
    if len(module.functions) == 1:
        return next(iter(module.functions))
    names = ", ".join(module.functions)
    if not names:
        raise KtirError("the file has no function")
    raise KtirError(f"the file has several functions: {names}; choose one with --function")


def parse_scalars(assignments: list[str] | None) -> dict[str, int | float | bool]:
    """Parse the NAME=VALUE options."""
    values = {}
    for assignment in assignments or []:
        name, separator, text = assignment.partition("=")
        value = _parse_number(text.strip())
        if not separator or not name.strip() or value is None:
            raise typer.BadParameter(f"{assignment!r} is not NAME=NUMBER", param_hint="--set")
        values[name.strip().removeprefix("%")] = value
    return values


def _parse_number(text: str) -> int | float | bool | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for parse in (lambda digits: int(digits, 0), float):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


CheckBounds = Annotated[
    bool, typer.Option("--check-bounds", help="Find accesses outside their view.")
]


@app.command()
def verify(
    file: File,
    set: Scalars = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also reject what only the interpreter accepts.")
    ] = False,
    check_bounds: CheckBounds = False,
) -> None:
    """Verify that a file can be compiled, and list its functions.

    With --check-bounds, each function runs on arrays of zeros; accesses whose coordinates depend on
    the elements of arrays are checked by `run --check-bounds`.
    """
    scalars = parse_scalars(set)
    module = read(file, strict=strict)
    for function in module.functions.values():
        if function.is_kernel:
            declared = {argument.name for argument in function.arguments}
            values = {name: value for name, value in scalars.items() if name in declared}
            if check_bounds:
                values |= random_scalars(function, values, seed=None)
            program = compile_function(module, function.name, values)
            if check_bounds:
                values = with_scalars(module, program, values)
                zeros = random_arrays(module, program, values, seed=None)
                module.check_bounds(function.name, **zeros, **values)
    count = len(module.functions)
    print(f"ok: {count} function{'' if count == 1 else 's'}")
    if not count:
        return
    table = Table("Function", "Grid", "Arguments", box=None)
    for function in module.functions.values():
        arguments = ", ".join(
            f"{argument.name}: {argument.type}" for argument in function.arguments
        )
        table.add_row(function.name, "x".join(map(str, function.grid)), arguments or "none")
    Console(markup=False, highlight=False).print(table)


def compile_function(module: "Module", name: str, scalars: "Values") -> "Program":
    """Compile a function; if it cannot be compiled, name the scalars that have no value."""
    from torch_spyre.backend.kernels import function_named
    from torch_spyre.errors import KtirError

    function = function_named(module, name)
    try:
        return module.compile(name, **scalars)
    except KtirError as error:
        missing = [scalar for scalar in scalar_names(function) if scalar not in scalars]
        if not missing or "--set" in error.problem or "known only at run time" not in error.problem:
            raise
        hint = f"; {name} needs {_set_options(missing)}"
        raise KtirError(error.problem + hint, error.location) from error


def scalar_names(function: "Function") -> list[str]:
    """Return the arguments that are not arrays."""
    from torch_spyre.backend.argument_analysis import array_arguments

    names = [argument.name for argument in function.arguments]
    arrays = array_arguments(function.operation, names)
    return [name for name in names if name not in arrays]


def with_scalars(module: "Module", program: "Program", values: "Values") -> "Values":
    """Return the values; raise if a scalar has none."""
    names = scalar_names(module.functions[program.name])
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(
            program.name, f"no value for {', '.join(missing)}; use {_set_options(missing)}"
        )
    return values


def _set_options(names: list[str]) -> str:
    return " ".join(f"--set {name}=NUMBER" for name in names)


@app.command("print")
def print_text(
    file: File,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
) -> None:
    """Print a file in canonical form."""
    text = str(read(file)).rstrip("\n") + "\n"
    if output is None:
        print(text, end="")
        return
    write_text(output, text)


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
    scalars = parse_scalars(set)
    module = read(file)
    program = compile_function(module, select_function(module, function), scalars)
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
    """Estimate the run time of a function on the card, without running it."""
    scalars = parse_scalars(set)
    module = read(file)
    timing = module.estimate(select_function(module, function), **scalars)
    if json:
        print(json_format.dumps(timing.to_dict(), indent=2))
    else:
        _print_timing(timing)


def _print_timing(timing: "Timing") -> None:
    console = Console(markup=False, highlight=False)
    properties = Table.grid(padding=(0, 2))
    utilisation = timing.utilisation
    for label, value in (
        ("time", f"{timing.time_us:.3f} us, {timing.cycles} cycles"),
        ("bound by", timing.bound_by),
        ("device memory", f"{timing.ddr_read_bytes} B read, {timing.ddr_write_bytes} B written"),
        ("scratchpad", f"{timing.lx_bytes} B moved, {timing.lx_peak_bytes} B at most in use"),
        ("ring", f"{timing.ring_byte_hops} byte hops"),
        ("work", f"{timing.macs} multiply-adds, {timing.sfp_lane_ops} vector lane ops"),
        (
            "utilisation",
            f"pt {utilisation.pt:.1%}, sfp {utilisation.sfp:.1%}, ddr {utilisation.ddr:.1%}, "
            f"lx {utilisation.lx:.1%}, ring {utilisation.ring:.1%}, "
            f"cores {utilisation.core_active:.1%}",
        ),
    ):
        properties.add_row(label, value)
    console.print(properties)
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
        start, duration = (
            f"{picoseconds / 1e6:.3f}" for picoseconds in (step.start_ps, step.duration_ps)
        )
        busiest = max(busy, key=lambda unit: busy[unit])
        table.add_row(step.name, step.op, str(step.cores), start, duration, busiest)
    console.print(table)

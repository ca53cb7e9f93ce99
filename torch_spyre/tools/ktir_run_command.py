"""`spyre ktir run`: run a kernel on arrays from a file, or on random arrays."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre.errors import InputError, KernelFailedError, OutputError, SpyreError
from torch_spyre.tools.ktir_command import (
    CheckBounds,
    File,
    FunctionName,
    Scalars,
    compile_function,
    parse_scalars,
    read,
    select_function,
    with_scalars,
)
from torch_spyre.tools.ktir_random_arrays import (
    arrays_of,
    random_arrays,
    random_scalars,
    to_torch_dtype,
)

if TYPE_CHECKING:
    import numpy as np

    from torch_spyre.backend.program.program import Program
    from torch_spyre.ktir import Module

    Values = dict[str, Any]


def run(
    file: File,
    function: FunctionName = None,
    set: Scalars = None,
    npz: Annotated[
        Path | None, typer.Option("--npz", help="Arrays and scalars by argument name.")
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Random arrays for arguments without a value.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of --random.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write all arrays afterwards to an npz file.")
    ] = None,
    check_bounds: CheckBounds = False,
) -> None:
    """Run a function on the current card, and print its arrays afterwards.

    With --random and without --function, every function of the file runs.
    """
    scalars = parse_scalars(set)
    module = read(file)
    values = {**(_from_file(npz) if npz is not None else {}), **scalars}
    for name in _selected(module, function, runs_all=random and npz is None and out is None):
        selected = values
        if function is None and len(module.functions) > 1:
            declared = {argument.name for argument in module.functions[name].arguments}
            selected = {key: value for key, value in values.items() if key in declared}
            print(f"{name}:")
        inputs = _inputs(module, name, selected, seed if random else None)
        before = _counters()
        results = _run(module, name, inputs, check_bounds=check_bounds)
        after = _counters()
        _print_arrays(results)
        _print_counters({key: after[key] - before.get(key, 0) for key in after})
        if out is not None:
            _save(out, results)


def _selected(module: "Module", function: str | None, *, runs_all: bool) -> list[str]:
    """Return the names of the functions to run."""
    if function is None and runs_all and len(module.functions) > 1:
        return [name for name, entry in module.functions.items() if entry.is_kernel]
    return [select_function(module, function)]


def _inputs(module: "Module", name: str, values: "Values", seed: int | None) -> "Values":
    """Return a value for each argument: the given ones, and random ones if there is a seed."""
    from torch_spyre.backend.kernels import function_named

    if seed is not None:
        chosen = random_scalars(function_named(module, name), values, seed)
        for scalar, value in chosen.items():
            print(f"{scalar} = {value}")
        values = {**values, **chosen}
    program = _program(module, name, values)
    inputs = with_scalars(module, program, _to_declared_dtypes(program, values))
    if seed is not None:
        return {**random_arrays(module, program, inputs, seed), **inputs}
    if missing := [array for array, *_ in arrays_of(program) if array not in inputs]:
        raise InputError(name, f"no value for {', '.join(missing)}; use --npz or --random")
    return inputs


def _run(
    module: "Module", name: str, inputs: "Values", *, check_bounds: bool
) -> "dict[str, np.ndarray]":
    from torch_spyre.backend.kernels import card_message

    try:
        return module.check_bounds(name, **inputs) if check_bounds else module.run(name, **inputs)
    except SpyreError:
        raise
    except (RuntimeError, IndexError) as error:
        raise KernelFailedError(name, card_message(error)) from error


def _from_file(path: Path) -> "Values":
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it has one unnamed array; use numpy.savez")
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}", error.strerror or str(error)) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(str(path), f"not an npz file: {error}") from error
    return {name: value if value.ndim else value.item() for name, value in arrays.items()}


def _program(module: "Module", name: str, values: "Values") -> "Program":
    """Compile a function to determine the names, shapes and dtypes of its arrays."""
    from torch_spyre.backend.kernels import function_named
    from torch_spyre.errors import KernelArgumentError
    from torch_spyre.ktir.suggestions import suggestion

    declared = {argument.name for argument in function_named(module, name).arguments}
    scalars = {key: value for key, value in values.items() if isinstance(value, int | float)}
    unknown = sorted(set(scalars) - declared)
    if unknown:
        hints = "".join(suggestion(key, declared) for key in unknown)
        raise KernelArgumentError(name, f"no argument {', '.join(unknown)}{hints}")
    return compile_function(module, name, scalars)


def _to_declared_dtypes(program: "Program", values: "Values") -> "Values":
    """Return the values with float arrays converted to declared dtypes that NumPy lacks."""
    types = {name: type for name, type, _ in arrays_of(program)}
    types |= {buffer.name: buffer.type for buffer in program.content.fixed_buffers}
    return {
        name: to_torch_dtype(value, types[name]) if name in types else value
        for name, value in values.items()
    }


def _counters() -> dict[str, int]:
    from torch_spyre.device.cards import counters

    return counters()


def _print_arrays(arrays: "dict[str, np.ndarray]") -> None:
    table = Table("Array", "Shape", "Type", "Min", "Max", "Mean", "NaN", box=None)
    for name, array in arrays.items():
        shape = "x".join(map(str, array.shape)) or "1"
        table.add_row(name, shape, str(array.dtype), *_statistics(array))
    Console(markup=False, highlight=False).print(table)


def _statistics(array: "np.ndarray") -> tuple[str, ...]:
    import numpy as np

    values = array.astype(np.float64).ravel()
    valid = values[~np.isnan(values)]
    num_nans = str(len(values) - len(valid))
    if not len(valid):
        return "-", "-", "-", num_nans
    with np.errstate(invalid="ignore"):  # inf - inf
        statistics = (valid.min(), valid.max(), valid.mean())
    return (*(f"{value:.6g}" for value in statistics), num_nans)


def _print_counters(counters: dict[str, int]) -> None:
    rows = Table.grid(padding=(0, 2))
    rows.add_row("device time", f"{counters.pop('device_time_ps') / 1e6:.3f} us")
    for name, value in counters.items():
        if value:
            rows.add_row(name.replace("_", " "), str(value))
    console = Console(markup=False, highlight=False)
    console.print()
    console.print(rows)


def _save(path: Path, arrays: "dict[str, np.ndarray]") -> None:
    import numpy as np

    try:
        # numpy.savez cannot save arrays whose names are those of its parameters.
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise OutputError(path, error) from error

"""`spyre ktir run`: run a kernel on arrays from a file, or on random arrays."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre.errors import InputError, KernelFailedError, OutputError, SpyreError
from torch_spyre.tools.ktir_command import (
    File,
    FunctionName,
    Scalars,
    parse_scalars,
    read,
    select_function,
)

if TYPE_CHECKING:
    import numpy as np
    import torch

    from torch_spyre.backend.program.instructions import ElementType
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
) -> None:
    """Run a function on the current card, and print its arrays afterwards."""
    scalars = parse_scalars(set)
    module = read(file)
    name = select_function(module, function)
    values = {**(_from_file(npz) if npz is not None else {}), **scalars}
    program = _program(module, name, values)
    inputs = _to_declared_dtypes(program, values)
    if random:
        inputs = {**_random_arrays(program, inputs, seed), **inputs}
    elif missing := [array for array, *_ in _arrays(program) if array not in inputs]:
        raise InputError(name, f"no value for {', '.join(missing)}; use --npz or --random")
    before = _counters()
    try:
        results = module.run(name, **inputs)
    except SpyreError:
        raise
    except (RuntimeError, IndexError) as error:
        # The card's message, without the stack trace that PyTorch may append.
        raise KernelFailedError(name, str(error).partition("Exception raised")[0]) from error
    after = _counters()
    _print_arrays(results)
    _print_counters({key: after[key] - before.get(key, 0) for key in after})
    if out is not None:
        _save(out, results)


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

    declared = {argument.name for argument in function_named(module, name).arguments}
    scalars = {key: value for key, value in values.items() if isinstance(value, int | float)}
    unknown = sorted(set(scalars) - declared)
    if unknown:
        raise KernelArgumentError(name, f"no argument {', '.join(unknown)}")
    return module.compile(name, **scalars)


def _arrays(
    program: "Program",
) -> "list[tuple[str, ElementType, tuple[int, ...] | None]]":
    """Return name, type and shape of each array; the shape is None if it is not static."""
    return [
        (argument.name, argument.type, argument.shape if argument.has_shape else None)
        for argument in program.arguments
        if argument.is_array
    ]


def _to_declared_dtypes(program: "Program", values: "Values") -> "Values":
    """Return the values with float arrays converted to declared dtypes that NumPy lacks."""
    types = {name: type for name, type, _ in _arrays(program)}
    types |= {buffer.name: buffer.type for buffer in program.content.fixed_buffers}
    return {
        name: _to_torch_dtype(value, types[name]) if name in types else value
        for name, value in values.items()
    }


def _to_torch_dtype(value: Any, type: "ElementType") -> Any:
    import numpy as np
    import torch

    dtype = _dtype_missing_in_numpy(type)
    if dtype is None or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return torch.from_numpy(value.astype(np.float32)).to(dtype)


def _dtype_missing_in_numpy(type: "ElementType") -> "torch.dtype | None":
    from torch_spyre.backend.arrays import dtype_of
    from torch_spyre.dtypes import RECORDS

    dtype = dtype_of(type)
    return None if RECORDS[dtype].is_in_numpy else dtype


def _random_arrays(program: "Program", inputs: "Values", seed: int) -> "Values":
    import numpy as np

    generator = np.random.default_rng(seed)
    required = _arrays(program)
    required += [
        (buffer.name, buffer.type, buffer.shape) for buffer in program.content.fixed_buffers
    ]
    arrays = {}
    for name, type, shape in required:
        if name in inputs:
            continue
        if shape is None:
            raise InputError(program.name, f"the shape of {name} is not static; pass it with --npz")
        arrays[name] = _random_array(generator, type, shape)
    return arrays


def _random_array(
    generator: "np.random.Generator", type: "ElementType", shape: tuple[int, ...]
) -> Any:
    """Return normally distributed floats, or integers from 0 to 7, which are valid as indices."""
    import numpy as np

    from torch_spyre.backend.program.instructions import ElementType

    if type is ElementType.I1:
        return generator.integers(0, 2, shape).astype(bool)
    if not type.is_float:
        return generator.integers(0, 8, shape).astype(f"int{8 * type.bytes}")
    values = generator.standard_normal(shape, dtype=np.float32)
    return _to_torch_dtype(values.astype(np.float16) if type is ElementType.F16 else values, type)


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

"""`spyre ktir run`: a kernel on arrays from a file, or on random ones."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre.errors import SpyreError
from torch_spyre.tools.ktir_command import (
    File,
    FunctionName,
    OutputError,
    Scalars,
    chosen,
    read,
    scalars_of,
)

if TYPE_CHECKING:
    import numpy as np
    import torch

    from torch_spyre.backend.program.instructions import ElementType
    from torch_spyre.backend.program.program import Program
    from torch_spyre.ktir import Module

    Values = dict[str, Any]


class InputError(SpyreError, ValueError):
    """The arrays given to a kernel cannot be read, or some are missing."""


class KernelFailedError(SpyreError):
    """The kernel was started and the card reported an error."""


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
    """Run a function on the current card, and show its arrays afterwards."""
    scalars = scalars_of(set)
    module = read(file)
    name = chosen(module, function)
    values = {**(_from_file(npz) if npz is not None else {}), **scalars}
    program = _program(module, name, values)
    given = _as_declared(program, values)
    if random:
        given = {**_random_arrays(program, given, seed), **given}
    elif missing := [array for array, *_ in _arrays(program) if array not in given]:
        raise InputError(f"{name}: no value for {', '.join(missing)}; use --npz or --random")
    before = _counters()
    try:
        results = module.run(name, **given)
    except SpyreError:
        raise
    except (RuntimeError, IndexError) as error:
        # The card's own words, without the stack that PyTorch may add.
        raise KernelFailedError(f"{name}: {str(error).partition('Exception raised')[0]}") from error
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
                raise ValueError("one array without a name; use numpy.savez")
            found = {name: file[name] for name in file.files}
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{str(path)!r} is no npz file: {error}") from error
    return {name: value if value.ndim else value.item() for name, value in found.items()}


def _program(module: "Module", name: str, values: "Values") -> "Program":
    """Compiled for its arguments alone: what arrays it takes, of which shapes and types."""
    from torch_spyre.backend.kernels import function_named
    from torch_spyre.ktir.errors import KtirError

    declared = {argument.name for argument in function_named(module, name).arguments}
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
    unknown = sorted(set(numbers) - declared)
    if unknown:
        raise KtirError(f"{name} takes no {', '.join(unknown)}")
    return module.compile(name, **numbers)


def _arrays(
    program: "Program",
) -> "list[tuple[str, ElementType, tuple[int, ...] | None]]":
    """Name, type and shape of each array; None where the kernel does not tell the shape."""
    return [
        (argument.name, argument.type, argument.shape if argument.has_shape else None)
        for argument in program.arguments
        if argument.is_array
    ]


def _as_declared(program: "Program", values: "Values") -> "Values":
    """Float arrays as the types that NumPy does not have, where the kernel wants these."""
    types = {name: type for name, type, _ in _arrays(program)}
    types |= {buffer.name: buffer.type for buffer in program.content.fixed_buffers}
    return {
        name: _narrowed(value, types[name]) if name in types else value
        for name, value in values.items()
    }


def _narrowed(value: Any, type: "ElementType") -> Any:
    import numpy as np
    import torch

    dtype = _unknown_to_numpy(type)
    if dtype is None or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return torch.from_numpy(value.astype(np.float32)).to(dtype)


def _unknown_to_numpy(type: "ElementType") -> "torch.dtype | None":
    from torch_spyre.backend.arrays import dtype_of
    from torch_spyre.dtypes import RECORDS

    dtype = dtype_of(type)
    return None if RECORDS[dtype].is_in_numpy else dtype


def _random_arrays(program: "Program", given: "Values", seed: int) -> "Values":
    import numpy as np

    generator = np.random.default_rng(seed)
    wanted = _arrays(program)
    wanted += [(found.name, found.type, found.shape) for found in program.content.fixed_buffers]
    arrays = {}
    for name, type, shape in wanted:
        if name in given:
            continue
        if shape is None:
            raise InputError(
                f"{program.name}: the size of {name} is not in the text; give it with --npz"
            )
        arrays[name] = _random_array(generator, type, shape)
    return arrays


def _random_array(
    generator: "np.random.Generator", type: "ElementType", shape: tuple[int, ...]
) -> Any:
    """Normally distributed; integers from 0 to 7, so that they may serve as indices."""
    import numpy as np

    from torch_spyre.backend.program.instructions import ElementType

    if type is ElementType.I1:
        return generator.integers(0, 2, shape).astype(bool)
    if not type.is_float:
        return generator.integers(0, 8, shape).astype(f"int{8 * type.bytes}")
    values = generator.standard_normal(shape, dtype=np.float32)
    return _narrowed(values.astype(np.float16) if type is ElementType.F16 else values, type)


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

    numbers = array.astype(np.float64).ravel()
    present = numbers[~np.isnan(numbers)]
    nans = str(len(numbers) - len(present))
    if not len(present):
        return "-", "-", "-", nans
    with np.errstate(invalid="ignore"):  # inf - inf
        found = (present.min(), present.max(), present.mean())
    return (*(f"{value:.6g}" for value in found), nans)


def _print_counters(counters: dict[str, int]) -> None:
    facts = Table.grid(padding=(0, 2))
    facts.add_row("device time", f"{counters.pop('device_time_ps') / 1e6:.3f} us")
    for name, value in counters.items():
        if value:
            facts.add_row(name.replace("_", " "), str(value))
    console = Console(markup=False, highlight=False)
    console.print()
    console.print(facts)


def _save(path: Path, arrays: "dict[str, np.ndarray]") -> None:
    import numpy as np

    try:
        # Not numpy.savez, whose own parameters are names that an argument may have.
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise OutputError(path, error) from error

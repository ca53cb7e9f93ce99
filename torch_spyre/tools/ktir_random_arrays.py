"""Random values for the arguments of a kernel: arrays by the sizes and types of their views."""

from typing import TYPE_CHECKING, Any

from torch_spyre.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import torch

    from torch_spyre.backend.program.instructions import ElementType
    from torch_spyre.backend.program.program import Program
    from torch_spyre.ktir import Function, Module

    Values = dict[str, Any]
    Shape = tuple[int, ...]

# Integers are below this, so that they are valid indices of most arrays.
_INTEGER_LIMIT = 8


def arrays_of(program: "Program") -> "list[tuple[str, ElementType, Shape | None]]":
    """Return name, type and shape of each array; the shape is None if it is not static."""
    return [
        (argument.name, argument.type, argument.shape if argument.has_shape else None)
        for argument in program.arguments
        if argument.is_array
    ]


def random_arrays(
    module: "Module", program: "Program", inputs: "Values", seed: int | None
) -> "Values":
    """Return an array for each one that `inputs` lacks: random, or zeros without a seed."""
    import numpy as np

    function = module.functions[program.name]
    required = [array for array in arrays_of(program) if array[0] not in inputs]
    required += [
        (buffer.name, buffer.type, buffer.shape)
        for buffer in program.content.fixed_buffers
        if buffer.name not in inputs
    ]
    sizes: dict[str, int | None] = {}
    if any(shape is None for _, _, shape in required):
        sizes = _sizes(module, function, inputs)
    limits = _index_limits(function)
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, type, shape in required:
        if shape is None:
            size = sizes.get(name)
            if size is None:
                raise InputError(
                    program.name, f"the size of {name} is not in the text; pass it with --npz"
                )
            if size < 0:
                raise InputError(program.name, f"the size of {name} is negative: {size}")
            shape = (size,)
        arrays[name] = _array(None if seed is None else generator, type, shape, limits.get(name))
    return arrays


def random_scalars(function: "Function", values: "Values", seed: int | None) -> "Values":
    """Return a value for each scalar that `values` lacks and whose value can be chosen.

    Floats are random from 0.5 to 1 (1 without a seed), bools random, runtime arguments their upper
    bound. Other integers are sizes and positions, which only the caller knows.
    """
    import numpy as np
    from xdsl.dialects.builtin import AnyFloat, IntegerType

    from torch_spyre.ktir.dialects.ktdp.types import RuntimeArgType

    generator = np.random.default_rng(seed)
    chosen: Values = {}
    for argument in function.arguments:
        type = argument.type
        if argument.name in values:
            continue
        if isinstance(type, RuntimeArgType):
            if type.upperbound is not None:
                chosen[argument.name] = type.upperbound
            type = type.underlying_type
        if isinstance(type, AnyFloat):
            chosen[argument.name] = 1.0 if seed is None else round(generator.uniform(0.5, 1), 3)
        elif isinstance(type, IntegerType) and type.width.data == 1:
            chosen[argument.name] = bool(seed is not None and generator.integers(0, 2))
    return chosen


def _sizes(module: "Module", function: "Function", inputs: "Values") -> dict[str, int | None]:
    """Return the elements of each array, as its views declare them for these scalars."""
    from torch_spyre.backend.lowering import array_sizes
    from torch_spyre.cards import load_card

    names = [argument.name for argument in function.arguments]
    scalars = {key: value for key, value in inputs.items() if isinstance(value, int | float)}
    operation, grid = function.operation, function.grid
    return array_sizes(operation, names, grid, module.source, load_card(), known=scalars)


def _index_limits(function: "Function") -> dict[str, int]:
    """Return for each array that holds indices the size of the smallest dim that they index."""
    from torch_spyre.backend.argument_analysis import index_limit

    names = (argument.name for argument in function.arguments)
    limits = {
        name: index_limit(function.operation, value)
        for name, value in zip(names, function.operation.args, strict=True)
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def _array(
    generator: "np.random.Generator | None", type: "ElementType", shape: "Shape", limit: int | None
) -> Any:
    """Return normally distributed floats, or small integers, which are valid as indices."""
    import numpy as np

    from torch_spyre.backend.program.instructions import ElementType

    if type is ElementType.I1:
        bits = np.zeros(shape, bool) if generator is None else generator.integers(0, 2, shape)
        return bits.astype(bool)
    if not type.is_float:
        below = max(1, min(_INTEGER_LIMIT, _INTEGER_LIMIT if limit is None else limit))
        integers = np.zeros(shape) if generator is None else generator.integers(0, below, shape)
        return integers.astype(f"int{8 * type.bytes}")
    values = np.zeros(shape, np.float32)
    if generator is not None:
        values = generator.standard_normal(shape, dtype=np.float32)
    return to_torch_dtype(values.astype(np.float16) if type is ElementType.F16 else values, type)


def to_torch_dtype(value: Any, type: "ElementType") -> Any:
    """Return a float array as a tensor if NumPy lacks the dtype that the kernel declares."""
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

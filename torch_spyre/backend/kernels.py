"""KTIR functions as kernels: compiled, timed, run on arrays."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from xdsl.dialects.builtin import FileLineColLoc, IndexType

from torch_spyre.backend.arrays import ArrayArgument, element_type_of, is_array, place, scalar_bits
from torch_spyre.backend.execution import execute, timing_of
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.program.cache import cache_key, program_cache
from torch_spyre.backend.program.instructions import Argument, FixedBuffer
from torch_spyre.backend.program.program import Program
from torch_spyre.backend.program.recent import add_to_cache
from torch_spyre.cards import CardDescription, load_card
from torch_spyre.errors import ScratchpadOverflowError
from torch_spyre.ktir.errors import KtirError
from torch_spyre.timing import Timing

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Function, Module

Scalar = int | float | bool


class KernelArgumentError(KtirError, TypeError):
    """A kernel was called with arguments that it does not take."""


def function_named(module: "Module", name: str) -> "Function":
    if name not in module.functions:
        known = ", ".join(module.functions) or "none"
        raise KtirError(f"the module has no function {name!r}; it has: {known}")
    function = module.functions[name]
    if not function.is_kernel:
        raise KtirError(f"function {name!r} is not a kernel: kernels have a body and no results")
    return function


def compile_kernel(
    module: "Module",
    name: str,
    scalars: Mapping[str, Scalar],
    arrays: frozenset[str] | None = None,
) -> Program:
    """The program for a function, with the scalars given compiled in. Kept by the module."""
    function = function_named(module, name)
    declared = {argument.name for argument in function.arguments}
    unknown = set(scalars) - declared
    if unknown:
        raise KernelArgumentError(_unexpected(function, unknown))
    card = load_card()
    # As text: 0.0 and -0.0, 1 and True are equal and make different programs.
    values = repr(sorted((key, repr(value)) for key, value in scalars.items()))
    key = (name, values, arrays, card.digest)
    program = module.programs.get(key)
    if program is None:
        found = _cached(module, function, scalars, values, arrays, card)
        program = add_to_cache(module.programs, key, found)
    return program


def _cached(
    module: "Module",
    function: "Function",
    scalars: Mapping[str, Scalar],
    values: str,
    arrays: frozenset[str] | None,
    card: CardDescription,
) -> Program:
    cache = program_cache()
    if cache is None:
        return _compiled(module, function, scalars, arrays, card)
    key = cache_key(
        str(module),
        _places(module),
        function.name,
        values,
        repr(None if arrays is None else sorted(arrays)),
        card.digest,
    )
    program = cache.find(key)
    if program is None:
        program = _compiled(module, function, scalars, arrays, card)
        cache.keep(key, program)
    return program


def _places(module: "Module") -> str:
    """Where the ops stand in their text: programs know, and the printed module does not."""
    locations = (operation.location for operation in module.operation.walk())
    return " ".join(
        f"{found.line.data}:{found.column.data}" if isinstance(found, FileLineColLoc) else "-"
        for found in locations
    )


def _compiled(
    module: "Module",
    function: "Function",
    scalars: Mapping[str, Scalar],
    arrays: frozenset[str] | None,
    card: CardDescription,
) -> Program:
    names = [argument.name for argument in function.arguments]
    content = compile_function(
        function.operation,
        names,
        function.grid,
        module.source,
        card,
        known=scalars,
        arrays=arrays,
    )
    return Program.of(content)


def estimate_kernel(module: "Module", name: str, scalars: Mapping[str, Scalar]) -> Timing:
    """What the kernel would take, from its program alone."""
    program = compile_kernel(module, name, scalars)
    missing = [argument.name for argument in program.arguments if not argument.is_array]
    if missing:
        raise KernelArgumentError(
            f"{name}: the time depends on {', '.join(missing)}; give values for these"
        )
    sizes = [_bytes_of(argument) for argument in program.arguments if argument.is_array]
    return timing_of(program, sizes, [])


def _bytes_of(argument: Argument) -> int:
    """-1: the kernel does not tell how large the array is."""
    if not argument.has_shape:
        return -1
    return int(np.prod(argument.shape, dtype=np.int64)) * argument.type.bytes


def run_kernel(module: "Module", name: str, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Runs a function on the current card; returns every array by name."""
    function = function_named(module, name)
    bound = _bind(function, arguments)
    arrays = frozenset(key for key, value in bound.items() if is_array(value))
    scalars = {key: value for key, value in bound.items() if key not in arrays}
    program = _program(module, name, scalars, arrays)
    fixed = _for_fixed_buffers(function, program, arguments, bound)
    placed: list[ArrayArgument] = []
    values: list[int] = []
    for argument in program.arguments:
        if argument.is_array:
            placed.append(_checked(name, argument, bound[argument.name]))
        else:
            values.append(scalar_bits(name, argument, bound[argument.name]))
    buffers = [
        _fixed(name, buffer, fixed.get(buffer.name)) for buffer in program.content.fixed_buffers
    ]
    execute(program, placed, values, buffers)
    torch.get_device_module("spyre").synchronize()
    return {found.name: found.to_numpy() for found in (*placed, *buffers)}


def _program(
    module: "Module", name: str, scalars: Mapping[str, Scalar], arrays: frozenset[str]
) -> Program:
    """Scalars stay arguments of the program, unless the kernel's shapes depend on them."""
    if name not in module.compiled_with_scalars:
        try:
            return compile_kernel(module, name, {}, arrays)
        except (KtirError, ScratchpadOverflowError):
            # Sizes without a bound, or with a bound that is far from what they are.
            if not scalars:
                raise
    program = compile_kernel(module, name, scalars, arrays)
    module.compiled_with_scalars.add(name)
    return program


def _bind(function: "Function", arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by declared name; by position when no name matches and the counts agree."""
    arguments = _scalars_unwrapped(function, arguments)
    names = [argument.name for argument in function.arguments]
    if names and not set(names) & set(arguments) and len(names) == len(arguments):
        return dict(zip(names, arguments.values(), strict=True))
    unknown = {key for key, value in arguments.items() if key not in names and not is_array(value)}
    missing = [name for name in names if name not in arguments]
    if missing:
        raise KernelArgumentError(f"{function.name}: no value for {', '.join(missing)}")
    if unknown:
        raise KernelArgumentError(_unexpected(function, unknown))
    return {name: arguments[name] for name in names}


def _scalars_unwrapped(function: "Function", arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays without dims are scalars where no address can be meant."""
    addresses = {
        found.name for found in function.arguments if isinstance(found.type, IndexType)
    } | (set(arguments) - {found.name for found in function.arguments})
    return {
        key: value.item() if is_array(value) and value.ndim == 0 and key not in addresses else value
        for key, value in arguments.items()
    }


def _for_fixed_buffers(
    function: "Function",
    program: Program,
    arguments: Mapping[str, Any],
    bound: Mapping[str, Any],
) -> dict[str, Any]:
    """The arrays that are no arguments: for memory at addresses that the text fixes."""
    if not set(bound) & set(arguments):
        # Bound by position, or the kernel has no arguments.
        extra = {} if bound else dict(arguments)
    else:
        extra = {key: value for key, value in arguments.items() if key not in bound}
    names = [buffer.name for buffer in program.content.fixed_buffers]
    unknown = set(extra) - set(names)
    if unknown:
        views = f"; its views at fixed addresses are: {', '.join(names)}" if names else ""
        raise KernelArgumentError(_unexpected(function, unknown) + views)
    return extra


def _unexpected(function: "Function", unknown: set[str]) -> str:
    names = ", ".join(argument.name for argument in function.arguments) or "none"
    return f"{function.name} takes no {', '.join(sorted(unknown))}; its arguments are: {names}"


def _checked(kernel: str, argument: Argument, value: Any) -> ArrayArgument:
    found = element_type_of(value)
    if found is not argument.type:
        raise KernelArgumentError(
            f"{kernel}: {argument.name} is an array of {value.dtype}, and the kernel's view of it "
            f"holds {argument.type.name.lower()}"
        )
    shape = tuple(value.shape)
    if argument.has_shape and shape != argument.shape:
        raise KernelArgumentError(
            f"{kernel}: {argument.name} has shape {shape}, and the kernel's view of it "
            f"{argument.shape}"
        )
    return place(argument.name, argument.type, value)


def _fixed(kernel: str, buffer: FixedBuffer, value: Any) -> ArrayArgument:
    """Memory at an address that the text fixes: an array given under its view's name, or zeros."""
    if value is None:
        return place(buffer.name, buffer.type, np.zeros(buffer.bytes, np.int8), raw=True)
    argument = Argument(buffer.name, True, 0, buffer.type, True, buffer.shape)
    return _checked(kernel, argument, value)

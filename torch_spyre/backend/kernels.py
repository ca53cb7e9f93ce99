"""Compiles KTIR functions as kernels, estimates their timing, and runs them on arrays."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from xdsl.dialects.builtin import FileLineColLoc, IndexType

from torch_spyre.backend.arrays import (
    ArrayArgument,
    copy_to_card,
    element_type_of,
    is_array,
    scalar_bits,
    zeros_on_card,
)
from torch_spyre.backend.execution import execute, timing_of
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.program.bounded_cache import add_to_cache
from torch_spyre.backend.program.cache import cache_key, program_cache
from torch_spyre.backend.program.instructions import Argument, FixedBuffer
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import CardDescription, load_card
from torch_spyre.errors import KernelArgumentError, KtirError, ScratchpadOverflowError
from torch_spyre.timing import Timing

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Function, Module

Scalar = int | float | bool


def function_named(module: "Module", name: str) -> "Function":
    """Return a kernel of a module by name; raise if there is none, or if it is no kernel."""
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
    """Return the program of a function with these scalars compiled in; the module caches it."""
    function = function_named(module, name)
    declared = {argument.name for argument in function.arguments}
    unknown = set(scalars) - declared
    if unknown:
        raise KernelArgumentError(function.name, _unexpected_arguments(function, unknown))
    card = load_card()
    # As text: 0.0 and -0.0, 1 and True compare equal but compile to different programs.
    values = repr(sorted((key, repr(value)) for key, value in scalars.items()))
    key = (name, values, arrays, card.digest)
    program = module.programs.get(key)
    if program is None:
        program = _load_or_compile(module, function, scalars, values, arrays, card)
        program = add_to_cache(module.programs, key, program)
    return program


def _load_or_compile(
    module: "Module",
    function: "Function",
    scalars: Mapping[str, Scalar],
    values: str,
    arrays: frozenset[str] | None,
    card: CardDescription,
) -> Program:
    """Return the program from the cache on disk; compile and store it if it is not there."""
    cache = program_cache()
    if cache is None:
        return _compile(module, function, scalars, arrays, card)
    key = cache_key(
        str(module),
        _source_locations(module),
        function.name,
        values,
        repr(None if arrays is None else sorted(arrays)),
        card.digest,
    )
    program = cache.load(key)
    if program is None:
        program = _compile(module, function, scalars, arrays, card)
        cache.store(key, program)
    return program


def _source_locations(module: "Module") -> str:
    """Return the lines and columns of all ops: part of programs, not of the printed module."""
    locations = (operation.location for operation in module.operation.walk())
    return " ".join(
        f"{location.line.data}:{location.column.data}"
        if isinstance(location, FileLineColLoc)
        else "-"
        for location in locations
    )


def _compile(
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
    return Program.from_content(content)


def estimate_kernel(module: "Module", name: str, scalars: Mapping[str, Scalar]) -> Timing:
    """Return the estimated timing of a kernel without running it."""
    program = compile_kernel(module, name, scalars)
    missing = [argument.name for argument in program.arguments if not argument.is_array]
    if missing:
        raise KernelArgumentError(
            name, f"the time depends on {', '.join(missing)}; pass values for these"
        )
    sizes = [_array_bytes(argument) for argument in program.arguments if argument.is_array]
    return timing_of(program, sizes, [])


def _array_bytes(argument: Argument) -> int:
    """Return the size of an array in bytes; -1 if the kernel does not declare its shape."""
    if not argument.has_shape:
        return -1
    return int(np.prod(argument.shape, dtype=np.int64)) * argument.type.bytes


def run_kernel(module: "Module", name: str, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Run a function on the current card; return every array by name."""
    function = function_named(module, name)
    bound = _bind(function, arguments)
    arrays = frozenset(key for key, value in bound.items() if is_array(value))
    scalars = {key: value for key, value in bound.items() if key not in arrays}
    program = _program_for_run(module, name, scalars, arrays)
    fixed = _fixed_buffer_arrays(function, program, arguments, bound)
    copied: list[ArrayArgument] = []
    values: list[int] = []
    for argument in program.arguments:
        if argument.is_array:
            copied.append(_copy_checked_array(name, argument, bound[argument.name]))
        else:
            values.append(scalar_bits(name, argument, bound[argument.name]))
    buffers = [
        _fixed_buffer(name, buffer, fixed.get(buffer.name))
        for buffer in program.content.fixed_buffers
    ]
    execute(program, copied, values, buffers)
    torch.get_device_module("spyre").synchronize()
    return {array.name: array.to_numpy() for array in (*copied, *buffers)}


def _program_for_run(
    module: "Module", name: str, scalars: Mapping[str, Scalar], arrays: frozenset[str]
) -> Program:
    """Return a program with scalars as arguments, or as constants if shapes depend on them."""
    if name not in module.compiled_with_scalars:
        try:
            return compile_kernel(module, name, {}, arrays)
        except (KtirError, ScratchpadOverflowError):
            # A size has no upper bound, or one that exceeds the scratchpad.
            if not scalars:
                raise
    program = compile_kernel(module, name, scalars, arrays)
    module.compiled_with_scalars.add(name)
    return program


def _bind(function: "Function", arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by declared name; by position if no name matches and the counts agree."""
    arguments = _with_python_scalars(function, arguments)
    names = [argument.name for argument in function.arguments]
    if names and not set(names) & set(arguments) and len(names) == len(arguments):
        return dict(zip(names, arguments.values(), strict=True))
    unknown = {key for key, value in arguments.items() if key not in names and not is_array(value)}
    missing = [name for name in names if name not in arguments]
    if missing:
        raise KernelArgumentError(function.name, f"no value for {', '.join(missing)}")
    if unknown:
        raise KernelArgumentError(function.name, _unexpected_arguments(function, unknown))
    return {name: arguments[name] for name in names}


def _with_python_scalars(function: "Function", arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with 0-d arrays as Python scalars, unless they may be addresses."""
    addresses = {
        argument.name for argument in function.arguments if isinstance(argument.type, IndexType)
    } | (set(arguments) - {argument.name for argument in function.arguments})
    return {
        key: value.item() if is_array(value) and value.ndim == 0 and key not in addresses else value
        for key, value in arguments.items()
    }


def _fixed_buffer_arrays(
    function: "Function",
    program: Program,
    arguments: Mapping[str, Any],
    bound: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arrays that are not arguments but the contents of fixed buffers, by name."""
    if not set(bound) & set(arguments):
        # Bound by position, or the kernel has no arguments.
        extra = {} if bound else dict(arguments)
    else:
        extra = {key: value for key, value in arguments.items() if key not in bound}
    names = [buffer.name for buffer in program.content.fixed_buffers]
    unknown = set(extra) - set(names)
    if unknown:
        views = f"; its views at fixed addresses are: {', '.join(names)}" if names else ""
        raise KernelArgumentError(function.name, _unexpected_arguments(function, unknown) + views)
    return extra


def _unexpected_arguments(function: "Function", unknown: set[str]) -> str:
    names = ", ".join(argument.name for argument in function.arguments) or "none"
    return f"no argument {', '.join(sorted(unknown))}; its arguments are: {names}"


def _copy_checked_array(kernel: str, argument: Argument, value: Any) -> ArrayArgument:
    """Copy an array to the card; raise if the kernel's view has another dtype or shape."""
    if element_type_of(value) is not argument.type:
        raise KernelArgumentError(
            kernel,
            f"{argument.name} is an array of {value.dtype}, and the kernel's view of it "
            f"holds {argument.type.name.lower()}; convert the array first",
        )
    shape = tuple(value.shape)
    if argument.has_shape and shape != argument.shape:
        raise KernelArgumentError(
            kernel,
            f"{argument.name} has shape {shape}, and the kernel's view of it {argument.shape}; "
            "pass an array of that shape",
        )
    return copy_to_card(argument.name, argument.type, value)


def _fixed_buffer(kernel: str, buffer: FixedBuffer, value: Any) -> ArrayArgument:
    """Return the memory of a fixed buffer: the array passed under its view's name, or zeros."""
    if value is None:
        return zeros_on_card(buffer.name, buffer.type, buffer.bytes)
    argument = Argument(buffer.name, True, 0, buffer.type, True, buffer.shape)
    return _copy_checked_array(kernel, argument, value)

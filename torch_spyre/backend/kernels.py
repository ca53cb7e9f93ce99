"""Compiles KTIR functions as kernels, estimates their timing, and runs them on arrays."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from xdsl.dialects.builtin import IndexType

from torch_spyre.backend.argument_binding import ArgumentBinder, on_card_of
from torch_spyre.backend.arrays import (
    ArrayArgument,
    is_array,
    scalar_bits,
    zeros_on_card,
)
from torch_spyre.backend.device_arrays import DeviceArray
from torch_spyre.backend.execution import execute, timing_of
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.program.bounded_cache import add_to_cache
from torch_spyre.backend.program.cache import cache_key, program_cache
from torch_spyre.backend.program.instructions import Argument, FixedBuffer
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import CardDescription, load_card
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.diagnostics import NOTE
from torch_spyre.errors import KernelArgumentError, KtirError, ScratchpadOverflowError
from torch_spyre.ktir.locations import position_of
from torch_spyre.ktir.suggestions import suggestion
from torch_spyre.ktir.syntax.printer import print_module
from torch_spyre.timing import Timing

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Function, Module

Scalar = int | float | bool


def function_named(module: "Module", name: str) -> "Function":
    """Return a kernel of a module by name; raise if there is none, or if it is no kernel."""
    if name not in module.functions:
        known = ", ".join(module.functions) or "none"
        hint = suggestion(name, module.functions)
        raise KtirError(f"the module has no function {name!r}; it has: {known}{hint}")
    function = module.functions[name]
    if not function.is_kernel:
        raise KtirError(f"function {name!r} is not a kernel: kernels have a body and no results")
    return function


def compile_kernel(
    module: "Module",
    name: str,
    scalars: Mapping[str, Scalar],
    arrays: frozenset[str] | None = None,
    *,
    checks_bounds: bool = False,
    optimises: bool = True,
) -> Program:
    """Return the program of a function with these scalars compiled in; the module caches it.

    With `checks_bounds` it raises for every access outside its view. `optimises` is that of
    `lowering.compile_function`.
    """
    function = function_named(module, name)
    declared = {argument.name for argument in function.arguments}
    unknown = set(scalars) - declared
    if unknown:
        raise KernelArgumentError(function.name, _unexpected_arguments(function, unknown))
    card = load_card()
    # As text: 0.0 and -0.0, 1 and True compare equal but compile to different programs.
    values = repr(sorted((key, repr(value)) for key, value in scalars.items()))
    key = (name, values, arrays, card.digest, checks_bounds, optimises)
    program = module.programs.get(key)
    if program is None:
        compiling = partial(
            _compile, module, function, scalars, arrays, card, checks_bounds, optimises
        )
        cache = program_cache() if optimises and not checks_bounds else None
        if cache is None:
            program = compiling()
        else:
            text = print_module(module.operation, has_sources=False)
            locations = _source_locations(module)
            which = repr(None if arrays is None else sorted(arrays))
            digest = cache_key(text, locations, name, values, which, card.digest)
            program = cache.load(digest)
            if program is None:
                program = compiling()
                cache.store(digest, program)
        program = add_to_cache(module.programs, key, program)
    return program


def _source_locations(module: "Module") -> str:
    """Return the lines and columns of all ops: part of programs, not of the printed module."""
    positions = (position_of(operation) for operation in module.operation.walk())
    return " ".join(
        f"{position.line.data}:{position.column.data}" if position is not None else "-"
        for position in positions
    )


def _compile(
    module: "Module",
    function: "Function",
    scalars: Mapping[str, Scalar],
    arrays: frozenset[str] | None,
    card: CardDescription,
    checks_bounds: bool,
    optimises: bool,
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
        checks_bounds=checks_bounds,
        optimises=optimises,
    )
    return Program.from_content(content)


def estimate_kernel(module: "Module", name: str, scalars: Mapping[str, Scalar]) -> Timing:
    """Return the estimated timing of a kernel without running it."""
    program, sizes = program_and_sizes(module, name, scalars)
    try:
        return timing_of(program, sizes, [])
    except (RuntimeError, ValueError, IndexError) as error:
        # The card refuses a program that cannot run with any arguments: a step of 0, for example.
        raise KtirError(f"{name}: {card_message(error)}") from error


def program_and_sizes(
    module: "Module", name: str, scalars: Mapping[str, Scalar]
) -> tuple[Program, list[int]]:
    """Return the program of a kernel whose time does not depend on arguments, and its array sizes.

    Raise if it depends on scalars that have no value here.
    """
    program = compile_kernel(module, name, scalars)
    missing = [argument.name for argument in program.arguments if not argument.is_array]
    if missing:
        raise KernelArgumentError(
            name, f"the time depends on {', '.join(missing)}; pass values for these"
        )
    sizes = [_array_bytes(argument) for argument in program.arguments if argument.is_array]
    return program, sizes


def card_message(error: Exception) -> str:
    """Return the card's message, without the stack trace and the note that may follow it."""
    return str(error).partition("Exception raised")[0].partition(NOTE)[0].strip()


def _array_bytes(argument: Argument) -> int:
    """Return the size of an array in bytes; -1 if the kernel does not declare its shape."""
    if not argument.has_shape:
        return -1
    return int(np.prod(argument.shape, dtype=np.int64)) * argument.type.bytes


def run_kernel(
    module: "Module", name: str, arguments: Mapping[str, Any], *, checks_bounds: bool = False
) -> "dict[str, np.ndarray | torch.Tensor]":
    """Run a function on a card; return every array by name.

    Arrays on the host are copied to the card, and returned as NumPy arrays. Tensors on a card are
    written in place, and returned themselves; without arrays on the host, the launch is not
    waited for. With `checks_bounds`, an access outside its view raises an IndexError.
    """
    function = function_named(module, name)
    bound = _bind(function, arguments)
    with on_card_of(name, {**arguments, **bound}):
        arrays = frozenset(key for key, value in bound.items() if is_array(value))
        scalars = {key: value for key, value in bound.items() if key not in arrays}
        program = _program_for_run(module, name, scalars, arrays, checks_bounds)
        fixed = _fixed_buffer_arrays(function, program, arguments, bound)
        return _launch(function, program, bound, fixed)


def _launch(
    function: "Function", program: Program, bound: Mapping[str, Any], fixed: Mapping[str, Any]
) -> "dict[str, np.ndarray | torch.Tensor]":
    """Bind the arguments of a program, launch it, and return its arrays by name."""
    binder = ArgumentBinder(function)
    arrays: list[ArrayArgument | DeviceArray] = []
    values: list[int] = []
    for argument in program.arguments:
        if argument.is_array:
            arrays.append(binder.bind(argument, bound[argument.name]))
        else:
            values.append(scalar_bits(function.name, argument, bound[argument.name]))
    buffers = [
        _fixed_buffer(binder, buffer, fixed.get(buffer.name))
        for buffer in program.content.fixed_buffers
    ]
    execute(program, arrays, values, buffers)
    binder.write_back()
    every = (*arrays, *buffers)
    if any(isinstance(array, ArrayArgument) for array in every):
        torch.get_device_module(DEVICE_NAME).synchronize()
    return {
        array.name: array.to_numpy() if isinstance(array, ArrayArgument) else array.tensor
        for array in every
    }


def _program_for_run(
    module: "Module",
    name: str,
    scalars: Mapping[str, Scalar],
    arrays: frozenset[str],
    checks_bounds: bool,
) -> Program:
    """Return a program with scalars as arguments, or as constants if shapes depend on them."""
    if name not in module.compiled_with_scalars:
        try:
            return compile_kernel(module, name, {}, arrays, checks_bounds=checks_bounds)
        except (KtirError, ScratchpadOverflowError):
            # A size has no upper bound, or one that exceeds the scratchpad.
            if not scalars:
                raise
    program = compile_kernel(module, name, scalars, arrays, checks_bounds=checks_bounds)
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
    for key, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.device.type != "cpu" and not value.ndim:
            _reject_device_scalar(function, key, value)
    addresses = {
        argument.name for argument in function.arguments if isinstance(argument.type, IndexType)
    } | (set(arguments) - {argument.name for argument in function.arguments})
    return {
        key: value.item() if is_array(value) and value.ndim == 0 and key not in addresses else value
        for key, value in arguments.items()
    }


def _reject_device_scalar(function: "Function", name: str, value: torch.Tensor) -> None:
    """Raise for a scalar on a card: reading it would wait for the card and copy to the host."""
    types = {argument.name: argument.type for argument in function.arguments}
    if name in types and not isinstance(types[name], IndexType):
        raise KernelArgumentError(
            function.name,
            f"{name} is a scalar, and its value is a tensor on {value.device}; pass a Python "
            "number, such as the tensor's item()",
        )


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
    declared = [argument.name for argument in function.arguments]
    hints = "".join(suggestion(name, declared) for name in sorted(unknown))
    return f"no argument {', '.join(sorted(unknown))}; its arguments are: {names}{hints}"


def _fixed_buffer(
    binder: ArgumentBinder, buffer: FixedBuffer, value: Any
) -> ArrayArgument | DeviceArray:
    """Return the memory of a fixed buffer: the array passed under its view's name, or zeros."""
    if value is None:
        return zeros_on_card(buffer.name, buffer.type, buffer.bytes)
    return binder.bind(Argument(buffer.name, True, 0, buffer.type, True, buffer.shape), value)

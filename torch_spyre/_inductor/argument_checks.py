"""Calls that PyTorch does not take are refused before they are decomposed.

Decompositions do not repeat what PyTorch asks of an op's arguments, and would cast to any target.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree

from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.errors import UnsupportedError

# Unlike comparisons, these do not give flags as numbers.
_FLAGS_ALONE = ("all", "any")


# What an op's function for fake tensors raises where there is none, where it would have to know
# data, and where it is broken: that of LSTM cells without bias looks at what is not there.
_NO_ANSWER = (
    UnsupportedOperatorException,
    NotImplementedError,
    DataDependentOutputException,
    DynamicOutputShapeException,
    AttributeError,
)
# Their functions for fake tensors refuse what kernels take: halves other than bfloat16.
_TOO_STRICT = ("aten::_grouped_mm",)
# Ops whose decompositions would take any type, and cut their results off to integers or flags.
_ON_FLOATS = ("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "leaky_relu")
_FLOATS_ALONE = (*_ON_FLOATS, "log_sigmoid_forward", "mish", "silu", "softplus", "softshrink")
# How schemas write numbers, and types that any of them can be converted to.
_NUMBERS = ("number", "Optional[number]")
_ANY_NUMBER = (torch.bool, torch.complex64, torch.complex128)
_NUMBERS_ALONE = ("abs", "argmax", "argmin", "ceil", "floor", "relu")


def check_arguments(
    overload: torch._ops.OpOverload,
    written: Sequence[torch.Tensor],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> list[torch.Tensor]:
    """Called with fake tensors: what the op would make anew must go into what it writes.

    Gives these results, as far as PyTorch has an op that makes them.
    """
    _check_type(overload, args)
    _check_numbers(overload, args, kwargs)
    if not written:
        return _made(overload, args, kwargs)
    functional = _functional(overload)
    if functional is None:
        return []
    wanted = {argument.name for argument in functional._schema.arguments}
    named = {name: value for name, value in kwargs.items() if name in wanted}
    name = overload._schema.name.removeprefix("aten::")
    results = pytree.tree_leaves(functional(*args, **named))
    for result, target in zip(results, written, strict=False):
        if name in _FLAGS_ALONE and target.dtype not in MASK_DTYPES:
            raise RuntimeError(f"{name} only supports bool tensor for result, got: {_name(target)}")
        if not torch.can_cast(result.dtype, target.dtype):
            raise RuntimeError(
                f"result type {_name(result)} can't be cast to the desired output type "
                f"{_name(target)}"
            )
    return results


def _check_type(overload: torch._ops.OpOverload, args: Sequence[Any]) -> None:
    """Types that the CPU's kernel refuses go to it: its words are those that users know."""
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    first = next((each for each in args if isinstance(each, torch.Tensor)), None)
    if first is None or first.is_floating_point():
        return
    if name in _FLOATS_ALONE or (name in _NUMBERS_ALONE and first.dtype is torch.bool):
        raise UnsupportedError(f"{overload} on {first.dtype}")


def _check_numbers(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Most kernels of the CPU refuse numbers that the type cannot hold; the others know what to do.

    As in PyTorch, integers may be the opposite of what a type without a sign holds.
    """
    first = next((each for each in args if isinstance(each, torch.Tensor)), None)
    if first is None or first.dtype in _ANY_NUMBER or first.is_floating_point():
        return
    limits = torch.iinfo(first.dtype)
    least = limits.min or -limits.max
    for place, argument in enumerate(overload._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        if str(argument.type) not in _NUMBERS or not isinstance(value, int | float):
            continue
        lowest = limits.min if isinstance(value, float) else least
        if not lowest <= value <= limits.max:
            raise UnsupportedError(f"{overload} with {value} on {first.dtype}")


def _made(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    if overload._schema.name not in _TOO_STRICT:
        with suppress(*_NO_ANSWER):
            return pytree.tree_leaves(overload(*args, **kwargs))
    return []


def _name(tensor: torch.Tensor) -> str:
    """As PyTorch spells types in messages: Float, Int."""
    return tensor.type().rpartition(".")[2].removesuffix("Tensor")


def _functional(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The overload that takes the same arguments and gives new tensors."""
    name = overload._schema.name.removeprefix("aten::").removesuffix("_")
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return None
    inputs = [(each.name, str(each.type)) for each in overload._schema.arguments if not each.is_out]
    for variant in packet.overloads():
        found: torch._ops.OpOverload = getattr(packet, variant)
        arguments = [(each.name, str(each.type)) for each in found._schema.arguments]
        if arguments == inputs and not found._schema.is_mutable:
            return found
    return None

"""Lowers `arith.constant`: scalars, splats, and tensors with listed elements."""

from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.ir import Attribute

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import WriteLiteral
from torch_spyre.backend.lowering.registers import float32_bits, limits, wrapped
from torch_spyre.backend.lowering.values import Splat
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.errors import KtirError


def lane_bits(value: float | int, type: ElementType) -> int:
    """Return the lane of a value: float32 bits, not yet rounded to the type, or the integer."""
    if type.is_float:
        return float32_bits(value)
    return wrapped(int(value), type)


def argument_bits(kernel: str, name: str, type: ElementType, value: Any) -> int:
    """Return the register bits of a scalar argument; raise if the value does not fit its type."""
    if isinstance(value, np.generic):
        value = value.item()
    declared = type.name.lower()
    if not isinstance(value, int | float if type.is_float else int):
        actual = value.__class__.__name__
        raise KtirError(f"{kernel}: {name} is a scalar of type {declared}, not {actual}")
    if not type.is_float and not _is_in_range(value, type):
        raise KtirError(
            f"{kernel}: {name} is a scalar of type {declared}, which cannot be {value}: it has "
            f"{type.bits} bits"
        )
    return lane_bits(value, type)


def _is_in_range(value: int, type: ElementType) -> bool:
    """Return whether an integer fits the type's width, as signed or unsigned."""
    low, high = limits(type)
    return low <= value <= high - low


def scalar_register(kernel: KernelContext, value: Attribute, type: ElementType) -> int:
    assert isinstance(value, IntegerAttr | FloatAttr)
    return kernel.literal(lane_bits(value.value.data, type), type)


def lower_constant(kernel: KernelContext, operation: arith.ConstantOp) -> None:
    result, value = operation.result, operation.value
    type = kernel.element_type(result.type)
    if isinstance(value, IntegerAttr | FloatAttr):
        kernel.scalars[result] = scalar_register(kernel, value, type)
        return
    if not isinstance(value, DenseIntOrFPElementsAttr) or not isinstance(result.type, TensorType):
        raise kernel.error(
            f"a constant of type {result.type} is not supported; use a scalar or dense<...>"
        )
    extents = kernel.extents_of(result.type)
    values = value.get_values()
    if not values:
        kernel.tensors[result] = Splat(kernel.constant(0), type, extents)
        return
    if value.is_splat():
        register = kernel.literal(lane_bits(values[0], type), type)
        kernel.tensors[result] = Splat(register, type, extents)
        return
    tensor = kernel.allocate(type, extents, result)
    lanes = tuple(lane_bits(element, type) for element in values)
    kernel.add(WriteLiteral(kernel.location, replace(tensor, strides=(1,)), lanes))
    kernel.tensors[result] = tensor

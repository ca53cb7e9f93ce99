"""`arith.constant`: scalars, splats, and tensors whose elements the text spells out."""

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
from torch_spyre.backend.lowering.registers import float32_bits, wrapped
from torch_spyre.backend.lowering.values import Splat
from torch_spyre.backend.program.instructions import ElementType


def lane_bits(value: float | int, type: ElementType) -> int:
    """A number as a lane: float32 bits, not yet rounded to a smaller type, or the integer."""
    if type.is_float:
        return float32_bits(float(value))
    return wrapped(int(value), type)


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
        raise kernel.error(f"a constant of type {result.type}")
    extents = kernel.shape_of(result.type)
    values = value.get_values()
    if value.is_splat() and values:
        register = kernel.literal(lane_bits(values[0], type), type)
        kernel.tensors[result] = Splat(register, type, extents)
        return
    tensor = kernel.new(type, extents, result)
    lanes = tuple(lane_bits(found, type) for found in values)
    kernel.add(WriteLiteral(kernel.place, tensor, lanes))
    kernel.tensors[result] = tensor

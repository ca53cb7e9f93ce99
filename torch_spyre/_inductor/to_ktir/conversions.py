"""Emits conversions between element types, with the semantics of PyTorch."""

import math
from collections.abc import Callable

from xdsl.dialects import math as math_dialect
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.types import (
    F8E4M3,
    F8E5M2,
    F32,
    I1,
    bytes_of,
    is_float,
    tensor_type,
)
from torch_spyre.ktir.dialects import arith as ktir_arith

# Halfway between the largest value of float8_e5m2fnuz and the value that would follow it.
_E5M2_OVERFLOW = 61440.0


def full_like(emitter: Emitter, value: float, operand: SSAValue) -> SSAValue:
    """Return a tensor of one value with an operand's element type and shape."""
    return emitter.splat(emitter.scalar(value, element_of(operand)), shape_of(operand))


def converted(emitter: Emitter, value: SSAValue, target: Attribute) -> SSAValue:
    """Return a tensor in another element type; the tensor itself if it has that type."""
    source = element_of(value)
    if source == target:
        return value
    if target == I1:
        return _to_bool(emitter, value)
    if target in (F8E4M3, F8E5M2) and source != F32:
        return converted(emitter, converted(emitter, value, F32), target)
    if target == F8E5M2:
        value = _overflow_to_nan(emitter, value)
    result_type = tensor_type(target, shape_of(value))
    return emitter.add(_cast(source, target)(value, result_type))


def _to_bool(emitter: Emitter, value: SSAValue) -> SSAValue:
    zero = full_like(emitter, 0, value)
    if is_float(element_of(value)):
        return emitter.add(ktir_arith.CmpfOp("une", value, zero))
    return emitter.add(ktir_arith.CmpiOp("ne", value, zero))


def _overflow_to_nan(emitter: Emitter, value: SSAValue) -> SSAValue:
    """Replace values that overflow float8_e5m2fnuz by NaN, as PyTorch does; the card saturates."""
    magnitude = emitter.add(math_dialect.AbsFOp(value))
    limit = full_like(emitter, _E5M2_OVERFLOW, value)
    overflows = emitter.add(ktir_arith.CmpfOp("oge", magnitude, limit))
    nan = full_like(emitter, math.nan, value)
    return emitter.add(ktir_arith.SelectOp(overflows, nan, value))


def _cast(source: Attribute, target: Attribute) -> Callable[..., Operation]:
    """Return the cast operation between two different types. The target is not bool."""
    widens = bytes_of(target) > bytes_of(source)
    match is_float(source), is_float(target):
        case True, True:
            return ktir_arith.ExtFOp if widens else ktir_arith.TruncFOp
        case True, False:
            return ktir_arith.FPToSIOp
        case False, True:
            return ktir_arith.UIToFPOp if source == I1 else ktir_arith.SIToFPOp
    if source == I1:
        return ktir_arith.ExtUIOp
    return ktir_arith.ExtSIOp if widens else ktir_arith.TruncIOp

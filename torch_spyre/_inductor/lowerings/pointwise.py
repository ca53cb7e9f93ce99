"""Lowerings of pointwise ops: instructions of the card, and powers."""

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import broadcast_tensors, get_promoted_dtype, make_pointwise, to_dtype
from torch._inductor.virtualized import ops
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND

from torch_spyre._inductor.lowerings.registry import register_lowering

aten = torch.ops.aten


def _custom(name: str) -> Callable[..., ir.TensorBox]:
    """Return a pointwise lowering to one instruction of the card."""
    pointwise: Callable[..., ir.TensorBox] = make_pointwise(lambda x: getattr(ops, name)(x))
    return pointwise


@register_lowering(aten.silu.default)
def _silu(x: ir.TensorBox) -> ir.TensorBox | None:
    return _custom("silu")(x)


@register_lowering(aten.gelu.default)
def _gelu(x: ir.TensorBox, approximate: str = "none") -> ir.TensorBox | None:
    return _custom("gelu")(x) if approximate == "none" else None


@register_lowering(aten.pow.Tensor_Tensor)
def _integer_power(base: ir.TensorBox, exponent: ir.TensorBox) -> ir.TensorBox | None:
    dtype = get_promoted_dtype(
        base, exponent, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    )
    if dtype.is_floating_point or dtype is torch.bool:
        return None

    def power(base: Any, exponent: Any) -> Any:
        zero, one = (ops.constant(value, dtype) for value in (0, 1))
        result, square = one, base
        for bit in range(31):
            shifted = ops.bitwise_right_shift(exponent, ops.constant(bit, dtype))
            is_set = ops.eq(ops.bitwise_and(shifted, one), one)
            result = ops.where(is_set, ops.mul(result, square), result)
            square = ops.mul(square, square)
        # Only 1 and -1 have an integer inverse; those of other integers truncate to 0.
        is_odd = ops.eq(ops.bitwise_and(exponent, one), one)
        sign = ops.where(is_odd, base, one)
        inverse = ops.where(ops.eq(ops.abs(base), one), sign, zero)
        return ops.where(ops.lt(exponent, zero), inverse, result)

    pointwise: Callable[..., ir.TensorBox] = make_pointwise(power)
    return pointwise(*_promoted(base, exponent, dtype))


# Inductor computes these by multiplications, a root or a reciprocal: faster, and as accurate.
_SIMPLE_EXPONENTS = (-1, -0.5, 0, 0.5, 1, 2, 3)


@register_lowering(aten.pow.Tensor_Scalar)
def _float_power(base: ir.TensorBox, exponent: float) -> ir.TensorBox | None:
    """Lower to the power function: a chain of multiplications rounds at every step."""
    dtype = base.get_dtype()
    if not dtype.is_floating_point or exponent in _SIMPLE_EXPONENTS:
        return None
    power: Callable[..., ir.TensorBox] = make_pointwise(
        lambda x: ops.pow(x, ops.constant(float(exponent), dtype))
    )
    return power(base)


def _promoted(left: ir.TensorBox, right: ir.TensorBox, dtype: torch.dtype) -> list[ir.TensorBox]:
    operands: list[ir.TensorBox] = broadcast_tensors(to_dtype(left, dtype), to_dtype(right, dtype))
    return operands

"""Functions of single elements: instructions of the card, and powers."""

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import broadcast_tensors, get_promoted_dtype, make_pointwise, to_dtype
from torch._inductor.virtualized import ops
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND

from torch_spyre._inductor.lowerings.registry import lowers

aten = torch.ops.aten


def _custom(name: str) -> Callable[..., ir.TensorBox]:
    """A pointwise op that is one instruction of the card."""
    pointwise: Callable[..., ir.TensorBox] = make_pointwise(lambda x: getattr(ops, name)(x))
    return pointwise


@lowers(aten.silu.default)
def _silu(x: ir.TensorBox) -> ir.TensorBox | None:
    return _custom("silu")(x)


@lowers(aten.gelu.default)
def _gelu(x: ir.TensorBox, approximate: str = "none") -> ir.TensorBox | None:
    return _custom("gelu")(x) if approximate == "none" else None


@lowers(aten.pow.Tensor_Tensor)
def _integer_power(base: ir.TensorBox, exponent: ir.TensorBox) -> ir.TensorBox | None:
    dtype = get_promoted_dtype(
        base, exponent, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    )
    if dtype.is_floating_point or dtype is torch.bool:
        return None

    def power(base: Any, exponent: Any) -> Any:
        zero, one = (ops.constant(each, dtype) for each in (0, 1))
        result, square = one, base
        for bit in range(31):
            shifted = ops.bitwise_right_shift(exponent, ops.constant(bit, dtype))
            used = ops.eq(ops.bitwise_and(shifted, one), one)
            result = ops.where(used, ops.mul(result, square), result)
            square = ops.mul(square, square)
        # The inverse of an integer is one only for 1 and -1.
        odd = ops.eq(ops.bitwise_and(exponent, one), one)
        sign = ops.where(odd, base, one)
        inverse = ops.where(ops.eq(ops.abs(base), one), sign, zero)
        return ops.where(ops.lt(exponent, zero), inverse, result)

    pointwise: Callable[..., ir.TensorBox] = make_pointwise(power)
    return pointwise(*_promoted(base, exponent, dtype))


# By products, a root or a reciprocal, which are quicker than the function and as good.
_POWERS_BY_PRODUCTS = (-1, -0.5, 0, 0.5, 1, 2, 3)


@lowers(aten.pow.Tensor_Scalar)
def _float_power(base: ir.TensorBox, exponent: float) -> ir.TensorBox | None:
    """Each product of a chain rounds: the seventh power would be four last places off."""
    dtype = base.get_dtype()
    if not dtype.is_floating_point or exponent in _POWERS_BY_PRODUCTS:
        return None
    power: Callable[..., ir.TensorBox] = make_pointwise(
        lambda x: ops.pow(x, ops.constant(float(exponent), dtype))
    )
    return power(base)


def _promoted(one: ir.TensorBox, other: ir.TensorBox, dtype: torch.dtype) -> list[ir.TensorBox]:
    found: list[ir.TensorBox] = broadcast_tensors(to_dtype(one, dtype), to_dtype(other, dtype))
    return found

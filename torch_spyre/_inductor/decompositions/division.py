"""Decomposition of floor division, which for floats is not the floor of the rounded quotient.

1.0 // 0.1 is 9, as in Python: the float 0.1 is a little more than a tenth, so that the exact
quotient is below 10, the rounded one.
"""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten


@register_decomposition(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(x: Any, other: Any) -> Any:
    return torch.div(x, other, rounding_mode="floor")


@register_decomposition(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div(x: Any, other: Any, *, rounding_mode: str | None) -> Any:
    dtype = torch.result_type(x, other)
    if rounding_mode != "floor" or not dtype.is_floating_point:
        return NotImplemented
    device = next(value.device for value in (x, other) if isinstance(value, torch.Tensor))
    # 16-bit floats are rounded once, at the end.
    compute_dtype = torch.float32 if dtype in HALF_DTYPES else dtype
    dividend, divisor = (_as_tensor(value, compute_dtype, device) for value in (x, other))
    return _floor_quotient(dividend, divisor).to(dtype)


def _as_tensor(value: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.to(dtype)
    return torch.full((), value, dtype=dtype, device=device)


def _floor_quotient(dividend: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    remainder = torch.fmod(dividend, divisor)
    quotient = (dividend - remainder) / divisor
    rounds_down = (remainder != 0) & ((divisor < 0) != (remainder < 0))
    quotient = torch.where(rounds_down, quotient - 1, quotient)
    # The quotient is an integer up to a rounding error.
    floored = torch.floor(quotient)
    floored = torch.where(quotient - floored > 0.5, floored + 1, floored)
    true_quotient = dividend / divisor
    signed_zero = torch.copysign(torch.zeros_like(true_quotient), true_quotient)
    floored = torch.where(quotient == 0, signed_zero, floored)
    return torch.where(divisor == 0, true_quotient, floored)

"""Decomposition of division that rounds down: of floats it is no rounded quotient.

1.0 // 0.1 is 9, as in Python: 0.1 is a little more than a tenth, and the remainder decides. The
nearest quotient is 10.
"""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten


@decomposes(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(x: Any, other: Any) -> Any:
    return torch.div(x, other, rounding_mode="floor")


@decomposes(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div(x: Any, other: Any, *, rounding_mode: str | None) -> Any:
    dtype = torch.result_type(x, other)
    if rounding_mode != "floor" or not dtype.is_floating_point:
        return NotImplemented
    device = next(each.device for each in (x, other) if isinstance(each, torch.Tensor))
    # Halves are rounded once, at the end.
    wide = torch.float32 if dtype in HALF_DTYPES else dtype
    dividend, divisor = (_as_tensor(each, wide, device) for each in (x, other))
    return _floored(dividend, divisor).to(dtype)


def _as_tensor(value: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.to(dtype)
    return torch.full((), value, dtype=dtype, device=device)


def _floored(dividend: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    remainder = torch.fmod(dividend, divisor)
    quotient = (dividend - remainder) / divisor
    is_below = (remainder != 0) & ((divisor < 0) != (remainder < 0))
    quotient = torch.where(is_below, quotient - 1, quotient)
    # A whole number but for rounding.
    floored = torch.floor(quotient)
    floored = torch.where(quotient - floored > 0.5, floored + 1, floored)
    nearest = dividend / divisor
    signed_zero = torch.copysign(torch.zeros_like(nearest), nearest)
    floored = torch.where(quotient == 0, signed_zero, floored)
    return torch.where(divisor == 0, nearest, floored)

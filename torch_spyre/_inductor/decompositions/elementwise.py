"""Functions of single elements: activations, powers, shifts, and what they refuse."""

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten


# The instruction is of halves, and not of `approximate="tanh"`.
@decomposes(aten.gelu.default)
def _gelu(x: torch.Tensor, approximate: str = "none") -> Any:
    if approximate == "none":
        if x.dtype is torch.float32:
            return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
        return NotImplemented
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


@decomposes(aten.sub.Tensor)
def _sub(x: Any, other: Any, *, alpha: float = 1) -> Any:
    # What traces ops has a quick way for sums that does not ask. Numbers come here too.
    types = [each.dtype for each in (x, other) if isinstance(each, torch.Tensor)]
    torch._check(
        torch.bool not in types,
        lambda: (
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        ),
    )
    return NotImplemented


@decomposes(aten.clamp.default, aten.clamp.Tensor)
def _clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:
    # Inductor's own would give back what it got.
    torch._check(
        min is not None or max is not None,
        lambda: "torch.clamp: At least one of 'min' or 'max' must not be None",
    )
    x = x if min is None else torch.clamp_min(x, min)
    return x if max is None else torch.clamp_max(x, max)


@decomposes(aten.tan.default)
def _tan(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) / torch.cos(x)


@decomposes(aten.cosh.default)
def _cosh(x: torch.Tensor) -> torch.Tensor:
    grown = torch.exp(x)
    return 0.5 * grown + 0.5 / grown


@decomposes(aten.sinh.default)
def _sinh(x: torch.Tensor) -> torch.Tensor:
    # Of the magnitude, where nothing cancels; and large ones are their own exponential.
    grown = torch.expm1(torch.abs(x))
    shrunk = torch.reciprocal(1 + torch.reciprocal(grown))
    return torch.copysign(0.5 * (grown + shrunk), x)


@decomposes(aten.glu.default)
def _glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    if x.shape[dim] % 2:
        raise ValueError(f"glu: dimension {dim} of size {x.shape[dim]} has no halves")
    values, gates = x.chunk(2, dim)
    return values * torch.sigmoid(gates)


@decomposes(aten.isneginf.default)
def _isneginf(x: torch.Tensor) -> torch.Tensor:
    return x == -math.inf


@decomposes(aten.isposinf.default)
def _isposinf(x: torch.Tensor) -> torch.Tensor:
    return x == math.inf


def _plus_pair(combine: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def added(
        x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, value: float = 1
    ) -> torch.Tensor:
        if combine is torch.true_divide:
            torch._check(
                first.is_floating_point() or second.is_floating_point(),
                lambda: (
                    "Integer division with addcdiv is no longer supported: use (input + value * "
                    "torch.trunc(tensor1 / tensor2)).to(input.dtype), or convert to floats first"
                ),
            )
        # Small squares of halves would not outlive their own format.
        first = first.to(torch.promote_types(x.dtype, first.dtype))
        pair = combine(first, second)
        return x + (pair if value == 1 else pair * value)

    return added


decomposes(aten.addcmul.default)(_plus_pair(torch.mul))


decomposes(aten.addcdiv.default)(_plus_pair(torch.true_divide))


@decomposes(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def _shrink_backward(gradient: torch.Tensor, x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.where(torch.abs(x) <= limit, 0.0, gradient)


@decomposes(aten.__lshift__.Tensor, aten.__lshift__.Scalar)
def _left_shift(x: torch.Tensor, bits: torch.Tensor | int) -> torch.Tensor:
    return x << bits if x.dtype.is_floating_point else torch.bitwise_left_shift(x, bits)


@decomposes(aten.__rshift__.Tensor, aten.__rshift__.Scalar)
def _right_shift(x: torch.Tensor, bits: torch.Tensor | int) -> torch.Tensor:
    return x >> bits if x.dtype.is_floating_point else torch.bitwise_right_shift(x, bits)


@decomposes(aten.pow.Tensor_Scalar)
def _power(base: torch.Tensor, exponent: float) -> Any:
    if base.dtype not in HALF_DTYPES or _is_half(exponent):
        return NotImplemented
    return torch.pow(base.to(torch.float32), exponent).to(base.dtype)


@decomposes(aten.pow.Scalar)
def _power_of_number(base: float, exponent: torch.Tensor) -> Any:
    if exponent.dtype in HALF_DTYPES and not _is_half(base):
        return torch.pow(base, exponent.to(torch.float32)).to(exponent.dtype)
    if exponent.dtype.is_floating_point or isinstance(base, float):
        return NotImplemented
    dtype = torch.result_type(base, exponent)  # flags have no number for a base
    return torch.pow(torch.full_like(exponent, base, dtype=dtype), exponent)


def _is_half(number: float) -> bool:
    """Do the card's halves hold it exactly? A power multiplies what rounding takes away."""
    fraction, _ = math.frexp(number)
    return not math.isfinite(number) or (fraction * 1024).is_integer()

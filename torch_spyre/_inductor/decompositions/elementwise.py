"""Decompositions of pointwise ops: activations, powers, shifts, and their argument checks."""

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten


# The instruction supports 16-bit floats only, and not `approximate="tanh"`.
@register_decomposition(aten.gelu.default)
def _gelu(x: torch.Tensor, approximate: str = "none") -> Any:
    if approximate == "none":
        if x.dtype is torch.float32:
            return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
        return NotImplemented
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


@register_decomposition(aten.sub.Tensor)
def _sub(x: Any, other: Any, *, alpha: float = 1) -> Any:
    # Fake tensors have a fast path for this op without the check. Scalars are operands too.
    dtypes = [value.dtype for value in (x, other) if isinstance(value, torch.Tensor)]
    torch._check(
        torch.bool not in dtypes,
        lambda: (
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        ),
    )
    return NotImplemented


@register_decomposition(aten.clamp.default, aten.clamp.Tensor)
def _clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:
    # Inductor's decomposition returns its argument without an error.
    torch._check(
        min is not None or max is not None,
        lambda: "torch.clamp: At least one of 'min' or 'max' must not be None",
    )
    x = x if min is None else torch.clamp_min(x, min)
    return x if max is None else torch.clamp_max(x, max)


@register_decomposition(aten.tan.default)
def _tan(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) / torch.cos(x)


@register_decomposition(aten.cosh.default)
def _cosh(x: torch.Tensor) -> torch.Tensor:
    exponential = torch.exp(x)
    return 0.5 * exponential + 0.5 / exponential


@register_decomposition(aten.sinh.default)
def _sinh(x: torch.Tensor) -> torch.Tensor:
    # sinh(|x|) = (e + e / (e + 1)) / 2 with e = expm1(|x|): nothing cancels or overflows early.
    exponential = torch.expm1(torch.abs(x))
    ratio = torch.reciprocal(1 + torch.reciprocal(exponential))
    return torch.copysign(0.5 * (exponential + ratio), x)


@register_decomposition(aten.glu.default)
def _glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    if x.shape[dim] % 2:
        raise ValueError(f"glu: dimension {dim} of size {x.shape[dim]} is not even")
    values, gates = x.chunk(2, dim)
    return values * torch.sigmoid(gates)


@register_decomposition(aten.isneginf.default)
def _isneginf(x: torch.Tensor) -> torch.Tensor:
    return x == -math.inf


@register_decomposition(aten.isposinf.default)
def _isposinf(x: torch.Tensor) -> torch.Tensor:
    return x == math.inf


def _add_scaled(combine: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the op that computes `x + value * combine(first, second)`."""

    def add_scaled(
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
        # Small squares would underflow in 16-bit floats.
        first = first.to(torch.promote_types(x.dtype, first.dtype))
        combined = combine(first, second)
        if not combined.is_floating_point() and not x.is_floating_point():
            value = int(value)  # as on the CPU, the factor has the dtype of the result
        return x + (combined if value == 1 else combined * value)

    return add_scaled


register_decomposition(aten.addcmul.default)(_add_scaled(torch.mul))
register_decomposition(aten.addcdiv.default)(_add_scaled(torch.true_divide))


@register_decomposition(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def _shrink_backward(gradient: torch.Tensor, x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.where(torch.abs(x) <= limit, 0.0, gradient)


@register_decomposition(aten.__lshift__.Tensor, aten.__lshift__.Scalar)
def _left_shift(x: torch.Tensor, bits: torch.Tensor | int) -> torch.Tensor:
    return x << bits if x.dtype.is_floating_point else torch.bitwise_left_shift(x, bits)


@register_decomposition(aten.__rshift__.Tensor, aten.__rshift__.Scalar)
def _right_shift(x: torch.Tensor, bits: torch.Tensor | int) -> torch.Tensor:
    return x >> bits if x.dtype.is_floating_point else torch.bitwise_right_shift(x, bits)


@register_decomposition(aten.pow.Tensor_Scalar)
def _power(base: torch.Tensor, exponent: float) -> Any:
    if base.dtype not in HALF_DTYPES or _fits_half(exponent):
        return NotImplemented
    return torch.pow(base.to(torch.float32), exponent).to(base.dtype)


@register_decomposition(aten.pow.Scalar)
def _power_of_scalar(base: float, exponent: torch.Tensor) -> Any:
    if exponent.dtype in HALF_DTYPES and not _fits_half(base):
        return torch.pow(base, exponent.to(torch.float32)).to(exponent.dtype)
    if exponent.dtype.is_floating_point or isinstance(base, float):
        return NotImplemented
    dtype = torch.result_type(base, exponent)  # a bool exponent promotes
    return torch.pow(torch.full_like(exponent, base, dtype=dtype), exponent)


def _fits_half(value: float) -> bool:
    """Return whether the card's 16-bit floats hold a value exactly.

    A power multiplies the error of a rounded base or exponent.
    """
    fraction, _ = math.frexp(value)
    return not math.isfinite(value) or (fraction * 1024).is_integer()

"""Decompositions of functions that the card has no instruction for.

They are computed in float32, on arguments that are reduced to a range in which nothing cancels. The
polynomials are those of Cephes for single precision, accurate to a few units in the last place.
Results of 16 bits are rounded once, at the end.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten
# Polynomials in x² for atan(x) / x - 1 up to tan(π / 8), and for asin(x) / x - 1 up to 1/2.
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
# Polynomials in a logarithm for erfinv(x) / x, near 0 and near 1 (M. Giles, 2010).
_ERFINV_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
# Polynomial for the remainder of ndtri after s - log(s) / s, where s = sqrt(-2 log(x)), fitted at
# Chebyshev nodes. Its argument is 1 / s, mapped linearly from its range to [-1, 1].
_NDTRI_TAIL = (
    *(-5.64974726e-05, 0.000121093096, -0.00016271416, 0.00035285176, -0.000629935809),
    *(-0.000513070217, 0.051831142, 0.990583657),
)
_NDTRI_DEPTHS = (3.0, 13.4)
# Polynomial in 2 / (1 + x / 2) - 1 for exp(x²) erfc(x) (1 + x / 2), fitted at Chebyshev nodes.
_ERFCX = (
    *(-8.50886956e-06, -1.32739553e-06, 6.76878056e-05, -3.29515385e-05, -0.000328100145),
    *(0.000427020145, 0.00154404768, -0.00324185487, -0.0107551161, 0.0182213841, 0.139736032),
    *(0.343580333, 0.510791353),
)
# Polynomial in 1 / (1 + x / 2) for log(erfc(x) (1 + x / 2)) + x² (Numerical Recipes, 6.2).
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418),
    *(0.37409196, 1.00002368, -1.26551223),
)


_INT_TO_FLOAT = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT


def in_float32(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of float32 as the decomposition of overloads, for all dtypes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def decomposition(*args: Any, **kwargs: Any) -> Any:
            tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
            _, dtype = elementwise_dtypes(*tensors, type_promotion_kind=_INT_TO_FLOAT)
            widened = [arg.float() if isinstance(arg, torch.Tensor) else arg for arg in args]
            return function(*widened, **kwargs).to(dtype)

        register_decomposition(*overloads)(decomposition)
        return function

    return register


def polynomial(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Return a polynomial by Horner's rule; the coefficient of the highest power is the first."""
    total: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    result: torch.Tensor = total
    return result


@in_float32(aten.atan.default)
def _atan(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    is_far, is_near = magnitude > math.tan(3 * math.pi / 8), magnitude <= math.tan(math.pi / 8)
    start = torch.where(is_far, math.pi / 2, torch.where(is_near, 0.0, math.pi / 4))
    reduced = torch.where(
        is_far, -1 / magnitude, torch.where(is_near, magnitude, (magnitude - 1) / (magnitude + 1))
    )
    square = reduced * reduced
    return torch.copysign(start + (polynomial(square, _ATAN) * square * reduced + reduced), x)


@in_float32(aten.atan2.default)
def _atan2(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    abs_y, abs_x = torch.abs(y), torch.abs(x)
    # The ratio is at most 1; that of equal operands, even infinite ones, is 1, but for zeros 0.
    large, small = torch.maximum(abs_y, abs_x), torch.minimum(abs_y, abs_x)
    ratio = torch.where(large == small, torch.where(large == 0, 0.0, 1.0), small / large)
    ratio = torch.where(torch.isnan(x) | torch.isnan(y), math.nan, ratio)
    angle = _atan(ratio)
    angle = torch.where(abs_y > abs_x, math.pi / 2 - angle, angle)
    is_negative = torch.copysign(torch.ones_like(x), x) < 0
    return torch.copysign(torch.where(is_negative, math.pi - angle, angle), y)


@in_float32(aten.erfc.default)
def _erfc(x: torch.Tensor) -> torch.Tensor:
    # Beyond 12 the result underflows.
    magnitude = torch.clamp(torch.abs(x), max=12.0)
    # The square of a rounded magnitude is exact, and its difference to the full square small.
    coarse = torch.floor(magnitude * 64) / 64
    correction = (magnitude - coarse) * (magnitude + coarse)
    inverse = 1 / (1 + 0.5 * magnitude)
    tail = (
        inverse * torch.exp(-coarse * coarse) * torch.exp(polynomial(inverse, _ERFC) - correction)
    )
    far = torch.where(x < 0, 2 - tail, tail)
    return torch.where(magnitude < 0.5, 1 - torch.erf(x), far)


@in_float32(aten.special_erfcx.default)
def _erfcx(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    inverse = 1 / (1 + 0.5 * magnitude)
    tail = inverse * polynomial(2 * inverse - 1, _ERFCX)
    coarse = torch.floor(magnitude * 64) / 64
    correction = (magnitude - coarse) * (magnitude + coarse)
    exponential = torch.exp(coarse * coarse) * torch.exp(correction)
    negative = torch.where(magnitude > 10, math.inf, 2 * exponential - tail)
    return torch.where(x < 0, negative, tail)


@in_float32(aten.special_log_ndtr.default)
def _log_ndtr(x: torch.Tensor) -> torch.Tensor:
    scaled = x * math.sqrt(0.5)
    # For negative x, erfcx has no factor exp(-x²) that would underflow; its logarithm is added.
    tail = torch.log(0.5 * _erfcx(-torch.clamp(scaled, max=0.0))) - scaled * scaled
    near = torch.log1p(-0.5 * _erfc(scaled))
    return torch.where(x < -1, tail, near)


@in_float32(aten.special_ndtri.default)
def _ndtri(x: torch.Tensor) -> torch.Tensor:
    complement = 1 - x
    depth = -torch.log(4 * x * complement)
    centre = polynomial(depth - 2.5, _ERFINV_CENTRE) * (2 * x - 1) * math.sqrt(2)
    small = torch.minimum(x, complement)
    near, far = _NDTRI_DEPTHS
    root = torch.clamp(torch.sqrt(-2 * torch.log(small)), near, far)
    inverse = 1 / root
    middle, half = (1 / near + 1 / far) / 2, (1 / near - 1 / far) / 2
    remainder = torch.log(root) + polynomial((inverse - middle) / half, _NDTRI_TAIL)
    tail = torch.where(small == 0, math.inf, root - remainder * inverse)
    tail = torch.where(x < 0.5, -tail, tail)
    result = torch.where(small < math.exp(-near * near / 2), tail, centre)
    return torch.where((x >= 0) & (x <= 1), result, math.nan)


@in_float32(aten.special_entr.default)
def _entr(x: torch.Tensor) -> torch.Tensor:
    result = torch.where(x > 0, -x * torch.log(x), torch.where(x == 0, 0.0, -math.inf))
    return torch.where(torch.isnan(x), math.nan, result)


@in_float32(
    aten.special_xlog1py.default,
    aten.special_xlog1py.self_scalar,
    aten.special_xlog1py.other_scalar,
)
def _xlog1py(x: Any, y: Any) -> torch.Tensor:
    x, y = torch.broadcast_tensors(*_as_tensors(x, y))
    result = torch.where(x == 0, 0.0, x * torch.log1p(y))
    return torch.where(torch.isnan(y), math.nan, result)


def _as_tensors(*values: Any) -> list[torch.Tensor]:
    device = next(value.device for value in values if isinstance(value, torch.Tensor))
    return [
        value if isinstance(value, torch.Tensor) else torch.full((), value, device=device)
        for value in values
    ]


@register_decomposition(aten.signbit.default)
def _signbit(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.bool:
        return torch.zeros_like(x)
    return torch.copysign(torch.ones_like(x), x) < 0 if x.is_floating_point() else x < 0


@in_float32(aten.asin.default)
def _asin(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    is_far = magnitude > 0.5
    root = torch.where(is_far, torch.sqrt(0.5 * (1 - magnitude)), magnitude)
    square = root * root
    angle = polynomial(square, _ASIN) * square * root + root
    return torch.copysign(torch.where(is_far, math.pi / 2 - 2 * angle, angle), x)


@in_float32(aten.acos.default)
def _acos(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    far = 2 * _asin(torch.sqrt(0.5 * (1 - magnitude)))
    return torch.where(
        magnitude <= 0.5, math.pi / 2 - _asin(x), torch.where(x > 0, far, math.pi - far)
    )


@in_float32(aten.asinh.default)
def _asinh(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    square = magnitude * magnitude
    near = torch.log1p(magnitude + square / (1 + torch.sqrt(square + 1)))
    # Squares of large magnitudes overflow.
    far = torch.log(magnitude) + math.log(2)
    return torch.copysign(torch.where(magnitude > 1e9, far, near), x)


@in_float32(aten.acosh.default)
def _acosh(x: torch.Tensor) -> torch.Tensor:
    shifted = x - 1
    near = torch.log1p(shifted + torch.sqrt(shifted * (x + 1)))
    return torch.where(x > 1e9, torch.log(x) + math.log(2), near)


@in_float32(aten.atanh.default)
def _atanh(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    return torch.copysign(0.5 * torch.log1p(2 * magnitude / (1 - magnitude)), x)


@in_float32(aten.hypot.default)
def _hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    abs_x, abs_y = torch.abs(x), torch.abs(y)
    large, small = torch.maximum(abs_x, abs_y), torch.minimum(abs_x, abs_y)
    ratio = torch.where(large == 0, 0.0, small / large)
    result = large * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(abs_x) | torch.isinf(abs_y), math.inf, result)


@in_float32(aten.logit.default)
def _logit(x: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    x = x if eps is None else torch.clamp(x, eps, 1 - eps)
    # Near 1/2 the logarithm is of nearly 1, whose difference from 1 is computed exactly.
    near = torch.log1p((2 * x - 1) / (1 - x))
    return torch.where(torch.abs(x - 0.5) < 0.25, near, torch.log(x / (1 - x)))


@in_float32(aten.erfinv.default)
def _erfinv(x: torch.Tensor) -> torch.Tensor:
    depth = -torch.log((1 - x) * (1 + x))
    centre = polynomial(depth - 2.5, _ERFINV_CENTRE)
    tail = polynomial(torch.sqrt(depth) - 3, _ERFINV_TAIL)
    result = torch.where(depth < 5, centre, tail) * x
    return torch.where(torch.abs(x) == 1, x * math.inf, result)


@in_float32(aten._cdist_forward.default)
def _cdist(
    x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: int | None = None
) -> torch.Tensor:
    distances = torch.abs(x.unsqueeze(-2) - y.unsqueeze(-3))
    if distances.shape[-1] == 0:
        return distances.sum(-1)
    if p == 0:
        return (distances != 0).float().sum(-1)
    if p == 1:
        return distances.sum(-1)
    if p == 2:
        return torch.sqrt((distances * distances).sum(-1))
    if math.isinf(p):
        return distances.amax(-1)
    return torch.pow(torch.pow(distances, p).sum(-1), 1 / p)

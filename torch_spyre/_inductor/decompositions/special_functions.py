"""Decompositions of functions that the card has no instruction for.

They are computed in float32, of arguments brought into a range where nothing cancels; polynomials
are those of Cephes' single precision, within some units of float32's last place. Halves are rounded
once, at the end.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten
# Of x² for atan(x) / x - 1 up to tan(π / 8), and for asin(x) / x - 1 up to 1/2.
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
# Of a logarithm, for erfinv(x) / x, near 0 and near 1 (M. Giles, 2010).
_ERFINV_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
# Of how far 1 / s lies from the middle of its range, in halves of it, for the rest of ndtri after
# s - log(s) / s, where s is the root of -2 log(x): fitted at Chebyshev's places.
_NDTRI_TAIL = (
    *(-5.64974726e-05, 0.000121093096, -0.00016271416, 0.00035285176, -0.000629935809),
    *(-0.000513070217, 0.051831142, 0.990583657),
)
_NDTRI_DEPTHS = (3.0, 13.4)
# Of 2 / (1 + x / 2) - 1, for exp(x²) erfc(x) (1 + x / 2): fitted at Chebyshev's places.
_ERFCX = (
    *(-8.50886956e-06, -1.32739553e-06, 6.76878056e-05, -3.29515385e-05, -0.000328100145),
    *(0.000427020145, 0.00154404768, -0.00324185487, -0.0107551161, 0.0182213841, 0.139736032),
    *(0.343580333, 0.510791353),
)
# Of 1 / (1 + x / 2), for log(erfc(x) (1 + x / 2)) + x² (Numerical Recipes, 6.2).
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418),
    *(0.37409196, 1.00002368, -1.26551223),
)


_FLOATS = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT


def in_float32(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def rounded(*args: Any, **kwargs: Any) -> Any:
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            _, dtype = elementwise_dtypes(*tensors, type_promotion_kind=_FLOATS)
            wide = [each.float() if isinstance(each, torch.Tensor) else each for each in args]
            return function(*wide, **kwargs).to(dtype)

        decomposes(*overloads)(rounded)
        return function

    return register


def polynomial(x: torch.Tensor, factors: Sequence[float]) -> torch.Tensor:
    total: Any = factors[0]
    for factor in factors[1:]:
        total = total * x + factor
    found: torch.Tensor = total
    return found


@in_float32(aten.atan.default)
def _atan(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    far, near = size > math.tan(3 * math.pi / 8), size <= math.tan(math.pi / 8)
    start = torch.where(far, math.pi / 2, torch.where(near, 0.0, math.pi / 4))
    turned = torch.where(far, -1 / size, torch.where(near, size, (size - 1) / (size + 1)))
    square = turned * turned
    return torch.copysign(start + (polynomial(square, _ATAN) * square * turned + turned), x)


@in_float32(aten.atan2.default)
def _atan2(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    tall, wide = torch.abs(y), torch.abs(x)
    # The quotient of what is at most 1; equal ones, be they infinite or nothing, are at 45 degrees.
    large, small = torch.maximum(tall, wide), torch.minimum(tall, wide)
    ratio = torch.where(large == small, torch.where(large == 0, 0.0, 1.0), small / large)
    ratio = torch.where(torch.isnan(x) | torch.isnan(y), math.nan, ratio)
    angle = _atan(ratio)
    angle = torch.where(tall > wide, math.pi / 2 - angle, angle)
    behind = torch.copysign(torch.ones_like(x), x) < 0
    return torch.copysign(torch.where(behind, math.pi - angle, angle), y)


@in_float32(aten.erfc.default)
def _erfc(x: torch.Tensor) -> torch.Tensor:
    # Beyond 12 it is less than any float32.
    size = torch.clamp(torch.abs(x), max=12.0)
    # A square of few bits is exact, and what is missing of it small.
    coarse = torch.floor(size * 64) / 64
    missing = (size - coarse) * (size + coarse)
    inverse = 1 / (1 + 0.5 * size)
    tail = inverse * torch.exp(-coarse * coarse) * torch.exp(polynomial(inverse, _ERFC) - missing)
    far = torch.where(x < 0, 2 - tail, tail)
    return torch.where(size < 0.5, 1 - torch.erf(x), far)


@in_float32(aten.special_erfcx.default)
def _erfcx(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    inverse = 1 / (1 + 0.5 * size)
    tail = inverse * polynomial(2 * inverse - 1, _ERFCX)
    coarse = torch.floor(size * 64) / 64
    missing = (size - coarse) * (size + coarse)
    grown = torch.exp(coarse * coarse) * torch.exp(missing)
    below = torch.where(size > 10, math.inf, 2 * grown - tail)
    return torch.where(x < 0, below, tail)


@in_float32(aten.special_log_ndtr.default)
def _log_ndtr(x: torch.Tensor) -> torch.Tensor:
    scaled = x * math.sqrt(0.5)
    # Far below, the logarithm of what decays is a square.
    below = torch.log(0.5 * _erfcx(-torch.clamp(scaled, max=0.0))) - scaled * scaled
    near = torch.log1p(-0.5 * _erfc(scaled))
    return torch.where(x < -1, below, near)


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
    rest = torch.log(root) + polynomial((inverse - middle) / half, _NDTRI_TAIL)
    tail = torch.where(small == 0, math.inf, root - rest * inverse)
    tail = torch.where(x < 0.5, -tail, tail)
    found = torch.where(small < math.exp(-near * near / 2), tail, centre)
    return torch.where((x >= 0) & (x <= 1), found, math.nan)


@in_float32(aten.special_entr.default)
def _entr(x: torch.Tensor) -> torch.Tensor:
    found = torch.where(x > 0, -x * torch.log(x), torch.where(x == 0, 0.0, -math.inf))
    return torch.where(torch.isnan(x), math.nan, found)


@in_float32(
    aten.special_xlog1py.default,
    aten.special_xlog1py.self_scalar,
    aten.special_xlog1py.other_scalar,
)
def _xlog1py(x: Any, y: Any) -> torch.Tensor:
    x, y = torch.broadcast_tensors(*_as_tensors(x, y))
    found = torch.where(x == 0, 0.0, x * torch.log1p(y))
    return torch.where(torch.isnan(y), math.nan, found)


def _as_tensors(*values: Any) -> list[torch.Tensor]:
    device = next(each.device for each in values if isinstance(each, torch.Tensor))
    return [
        each if isinstance(each, torch.Tensor) else torch.full((), each, device=device)
        for each in values
    ]


@decomposes(aten.signbit.default)
def _signbit(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.bool:
        return torch.zeros_like(x)
    return torch.copysign(torch.ones_like(x), x) < 0 if x.is_floating_point() else x < 0


@in_float32(aten.asin.default)
def _asin(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    far = size > 0.5
    root = torch.where(far, torch.sqrt(0.5 * (1 - size)), size)
    square = root * root
    angle = polynomial(square, _ASIN) * square * root + root
    return torch.copysign(torch.where(far, math.pi / 2 - 2 * angle, angle), x)


@in_float32(aten.acos.default)
def _acos(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    far = 2 * _asin(torch.sqrt(0.5 * (1 - size)))
    return torch.where(size <= 0.5, math.pi / 2 - _asin(x), torch.where(x > 0, far, math.pi - far))


@in_float32(aten.asinh.default)
def _asinh(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    square = size * size
    near = torch.log1p(size + square / (1 + torch.sqrt(square + 1)))
    # Squares of large ones are infinite.
    far = torch.log(size) + math.log(2)
    return torch.copysign(torch.where(size > 1e9, far, near), x)


@in_float32(aten.acosh.default)
def _acosh(x: torch.Tensor) -> torch.Tensor:
    above = x - 1
    near = torch.log1p(above + torch.sqrt(above * (x + 1)))
    return torch.where(x > 1e9, torch.log(x) + math.log(2), near)


@in_float32(aten.atanh.default)
def _atanh(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    return torch.copysign(0.5 * torch.log1p(2 * size / (1 - size)), x)


@in_float32(aten.hypot.default)
def _hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    one, other = torch.abs(x), torch.abs(y)
    large, small = torch.maximum(one, other), torch.minimum(one, other)
    ratio = torch.where(large == 0, 0.0, small / large)
    found = large * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(one) | torch.isinf(other), math.inf, found)


@in_float32(aten.logit.default)
def _logit(x: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    x = x if eps is None else torch.clamp(x, eps, 1 - eps)
    # Near 1/2, where the logarithm is of nearly 1, the difference is exact.
    near = torch.log1p((2 * x - 1) / (1 - x))
    return torch.where(torch.abs(x - 0.5) < 0.25, near, torch.log(x / (1 - x)))


@in_float32(aten.erfinv.default)
def _erfinv(x: torch.Tensor) -> torch.Tensor:
    depth = -torch.log((1 - x) * (1 + x))
    centre = polynomial(depth - 2.5, _ERFINV_CENTRE)
    tail = polynomial(torch.sqrt(depth) - 3, _ERFINV_TAIL)
    found = torch.where(depth < 5, centre, tail) * x
    return torch.where(torch.abs(x) == 1, x * math.inf, found)


@in_float32(aten._cdist_forward.default)
def _cdist(
    x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: int | None = None
) -> torch.Tensor:
    apart = torch.abs(x.unsqueeze(-2) - y.unsqueeze(-3))
    if apart.shape[-1] == 0:
        return apart.sum(-1)
    if p == 0:
        return (apart != 0).float().sum(-1)
    if p == 1:
        return apart.sum(-1)
    if p == 2:
        return torch.sqrt((apart * apart).sum(-1))
    if math.isinf(p):
        return apart.amax(-1)
    return torch.pow(torch.pow(apart, p).sum(-1), 1 / p)

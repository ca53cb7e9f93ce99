"""Decompositions of the modified Bessel functions of the first kind, of order 0 and 1.

They are computed in float32, as in `special_functions`, with the exponential factor separate. The
polynomials were fitted at Chebyshev nodes.
"""

import math
from collections.abc import Sequence

import torch

from torch_spyre._inductor.decompositions.special_functions import in_float32, polynomial

aten = torch.ops.aten
_BOUND = 8.0
# Polynomials in x / 4 - 1 for i0e(x) and i1e(x) / x, up to the bound.
_I0E_NEAR = (
    *(0.00198147932, -0.00437582865, 0.00122772142, -0.00168160288, 0.0145283017, -0.024741372),
    *(0.0286079623, -0.0402061532, 0.0573339834, -0.0703968108, 0.0791650043, -0.0848247291),
    *(0.0873542956, -0.0890534836, 0.0945152163, -0.113004115, 0.207001924),
)
_I1E_NEAR = (
    *(0.000307414213, -0.000728278485, 0.000411442206, -0.000778703491, 0.00336142034),
    *(-0.00628160565, 0.00936740035, -0.0151625689, 0.023762642, -0.0337968024, 0.044659437),
    *(-0.0552597528, 0.0637688955, -0.0684840731, 0.0680575434, -0.0611243071, 0.0446877102),
)
# Polynomials in 16 / x - 1 for i0e(x) * sqrt(x) and i1e(x) * sqrt(x), beyond the bound.
_I0E_FAR = (
    *(1.08679425e-07, 3.62667038e-07, 1.47611573e-06, 1.11121483e-05, 0.000136217164),
    *(0.0033605557, 0.402176509),
)
_I1E_FAR = (
    *(-1.22732171e-07, -4.21035014e-07, -1.82569073e-06, -1.50039654e-05, -0.000219237125),
    *(-0.00974958136, 0.389398459),
)


def _far(magnitude: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    return polynomial(2 * _BOUND / magnitude - 1, coefficients) * torch.rsqrt(magnitude)


@in_float32(aten.special_i0e.default)
def _i0e(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    near = polynomial(magnitude * (2 / _BOUND) - 1, _I0E_NEAR)
    return torch.where(magnitude <= _BOUND, near, _far(magnitude, _I0E_FAR))


@in_float32(aten.special_i1e.default)
def _i1e(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    near = polynomial(magnitude * (2 / _BOUND) - 1, _I1E_NEAR) * magnitude
    return torch.copysign(torch.where(magnitude <= _BOUND, near, _far(magnitude, _I1E_FAR)), x)


def _unscaled(x: torch.Tensor, scaled: torch.Tensor) -> torch.Tensor:
    """Return `exp(|x|) * scaled`, in two factors of exp(|x| / 2), which overflow later."""
    magnitude = torch.abs(x)
    half = torch.exp(0.5 * magnitude)
    infinite = torch.copysign(torch.full_like(x, math.inf), scaled)
    return torch.where(torch.isinf(x), infinite, half * scaled * half)


@in_float32(aten.i0.default)
def _i0(x: torch.Tensor) -> torch.Tensor:
    return _unscaled(x, _i0e(x))


@in_float32(aten.special_i1.default)
def _i1(x: torch.Tensor) -> torch.Tensor:
    return _unscaled(x, _i1e(x))

"""Decompositions of the logarithm of the gamma function and of its derivatives.

Computed in float32, as `special_functions` are. Arguments below the range of a series are brought
into it by the function's recurrence, and those below zero by its reflection.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.special_functions import in_float32, polynomial

aten = torch.ops.aten
# Of x - 2 for lgamma(x) / ((x - 1) (x - 2)) from 1 to 3: fitted at Chebyshev's places.
_LGAMMA = (
    *(1.93087369e-05, -3.87341846e-05, 2.02493716e-05, -5.24194264e-05, 0.000195799389),
    *(-0.000425571209, 0.000910506029, -0.00210206103, 0.00499947946, -0.0123849731),
    *(0.0329649432, -0.100317266, 0.422784326),
)
# Bernoulli's numbers of even order, from the second on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# Where the series of digamma and zeta have seven digits.
_FAR = 6


@in_float32(aten.lgamma.default)
def _lgamma(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    positive = _lgamma_of_positive(size)
    # Of what is left of the size without whole numbers, which is exact.
    part = size - torch.floor(size)
    sine = torch.sin(math.pi * torch.minimum(part, 1 - part))
    # The logarithms apart: for small ones the product is less than any float32.
    reflected = math.log(math.pi) - torch.log(size) - torch.log(sine) - positive
    # Below that, as near as it can be told, it is as at zero.
    near = size < 1e-6
    reflected = torch.where(near, positive, reflected)
    found = torch.where(x < 0, reflected, positive)
    pole = (x <= 0) & (part == 0)
    return torch.where(pole | torch.isinf(x), math.inf, found)


def _lgamma_of_positive(x: torch.Tensor) -> torch.Tensor:
    below = torch.where(x < 1, x + 1, x) - 2
    near = polynomial(below, _LGAMMA) * (below + 1) * below
    near = torch.where(x < 1, near - torch.log(x), near)
    # The product last: without it, what is large and finite would be infinite.
    inverse = 1 / x
    terms = [n / (2 * k * (2 * k - 1)) for k, n in enumerate(_BERNOULLI, 1)]
    series = polynomial(inverse * inverse, terms[::-1]) * inverse
    far = (x - 0.5) * (torch.log(x) - 1) + (series + (0.5 * math.log(2 * math.pi) - 0.5))
    return torch.where(x < 3, near, far)


@in_float32(aten.mvlgamma.default)
def _mvlgamma(x: torch.Tensor, p: int) -> torch.Tensor:
    torch._check(p >= 1, lambda: "p has to be greater than or equal to 1")
    total = torch.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
    for place in range(p):
        total = total + _lgamma(x - place / 2)
    return total


@in_float32(aten.digamma.default)
def _digamma(x: torch.Tensor) -> torch.Tensor:
    # At 1 - x where x is below zero.
    start = torch.where(x < 0, 1 - x, x)
    above = torch.where(start < _FAR, start + _FAR, start)
    inverse = 1 / above
    square = inverse * inverse
    terms = [n / (2 * k) for k, n in enumerate(_BERNOULLI[:6], 1)]
    far = torch.log(above) - 0.5 * inverse - polynomial(square, terms[::-1]) * square
    missing = torch.zeros_like(x)
    for place in reversed(range(_FAR)):
        missing = missing + 1 / (start + place)
    found = torch.where(start < _FAR, far - missing, far)
    part = x - torch.round(x)
    turned = math.pi * torch.cos(math.pi * part) / torch.sin(math.pi * part)
    found = torch.where(x < 0, found - turned, found)
    found = torch.where((x < 0) & (part == 0), math.nan, found)
    found = torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), found)
    return torch.where(x == math.inf, math.inf, torch.where(x == -math.inf, math.nan, found))


@in_float32(aten.polygamma.default)
def _polygamma(n: int, x: torch.Tensor) -> Any:
    torch._check(n >= 0, lambda: "polygamma(n, x) does not support negative n.")
    if n == 0:
        return _digamma(x)
    size = torch.abs(x)
    part = size - torch.floor(size)
    # Below zero the sum is of the terms above it, and of those between.
    above = _zeta(n + 1, torch.where(x > 0, x, 1 - part))
    between = _zeta(n + 1, part) - _zeta(n + 1, 1 + size)
    below = above + (between if n % 2 else -between)
    found = torch.where(x > 0, above, torch.where(part == 0, math.inf, below))
    return (-1) ** (n + 1) * math.gamma(n + 1) * found


def _zeta(s: int, q: torch.Tensor) -> torch.Tensor:
    """The sum of (q + k) to the -s: the first of them, and Euler's and Maclaurin's of the rest."""
    behind = 1 / (q + _FAR)
    last = _power(behind, s)
    square = behind * behind
    factors, factor = [], float(s)
    for k, number in enumerate(_BERNOULLI, 1):
        factors.append(factor * number / math.gamma(2 * k + 1))
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    rest = polynomial(square, factors[::-1]) * behind
    total = last * ((q + _FAR) / (s - 1) + 0.5 + rest)
    for place in reversed(range(_FAR)):
        total = total + _power(1 / (q + place), s)
    return total


def _power(x: torch.Tensor, exponent: int) -> torch.Tensor:
    if exponent == 1:
        return x
    half = _power(x, exponent // 2)
    return half * half * x if exponent % 2 else half * half

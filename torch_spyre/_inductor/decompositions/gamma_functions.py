"""Decompositions of the logarithm of the gamma function and of its derivatives.

They are computed in float32, as in `special_functions`. Recurrences map arguments below the range
of a series into it; reflection formulas map negative arguments.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.special_functions import in_float32, polynomial

aten = torch.ops.aten
# Polynomial in x - 2 for lgamma(x) / ((x - 1) (x - 2)) from 1 to 3, fitted at Chebyshev nodes.
_LGAMMA = (
    *(1.93087369e-05, -3.87341846e-05, 2.02493716e-05, -5.24194264e-05, 0.000195799389),
    *(-0.000425571209, 0.000910506029, -0.00210206103, 0.00499947946, -0.0123849731),
    *(0.0329649432, -0.100317266, 0.422784326),
)
# Bernoulli numbers of even order, from the second on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# From here on the series of digamma and zeta have seven digits.
_SERIES_START = 6


@in_float32(aten.lgamma.default)
def _lgamma(x: torch.Tensor) -> torch.Tensor:
    magnitude = torch.abs(x)
    positive = _lgamma_of_positive(magnitude)
    # The fractional part is exact, unlike pi times the magnitude.
    fraction = magnitude - torch.floor(magnitude)
    sine = torch.sin(math.pi * torch.minimum(fraction, 1 - fraction))
    # A sum of logarithms: the product of small factors would underflow.
    reflected = math.log(math.pi) - torch.log(magnitude) - torch.log(sine) - positive
    # Next to zero the function is even, within float32's precision.
    reflected = torch.where(magnitude < 1e-6, positive, reflected)
    result = torch.where(x < 0, reflected, positive)
    is_pole = (x <= 0) & (fraction == 0)
    return torch.where(is_pole | torch.isinf(x), math.inf, result)


def _lgamma_of_positive(x: torch.Tensor) -> torch.Tensor:
    shifted = torch.where(x < 1, x + 1, x) - 2
    near = polynomial(shifted, _LGAMMA) * (shifted + 1) * shifted
    near = torch.where(x < 1, near - torch.log(x), near)
    # (x - 0.5) * (log(x) - 1) overflows later than (x - 0.5) * log(x) - x.
    inverse = 1 / x
    terms = [n / (2 * k * (2 * k - 1)) for k, n in enumerate(_BERNOULLI, 1)]
    series = polynomial(inverse * inverse, terms[::-1]) * inverse
    far = (x - 0.5) * (torch.log(x) - 1) + (series + (0.5 * math.log(2 * math.pi) - 0.5))
    return torch.where(x < 3, near, far)


@in_float32(aten.mvlgamma.default)
def _mvlgamma(x: torch.Tensor, p: int) -> torch.Tensor:
    torch._check(p >= 1, lambda: "p has to be greater than or equal to 1")
    total = torch.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
    for term in range(p):
        total = total + _lgamma(x - term / 2)
    return total


@in_float32(aten.digamma.default)
def _digamma(x: torch.Tensor) -> torch.Tensor:
    # The reflection formula evaluates negative arguments at 1 - x.
    start = torch.where(x < 0, 1 - x, x)
    shifted = torch.where(start < _SERIES_START, start + _SERIES_START, start)
    inverse = 1 / shifted
    square = inverse * inverse
    terms = [n / (2 * k) for k, n in enumerate(_BERNOULLI[:6], 1)]
    series = torch.log(shifted) - 0.5 * inverse - polynomial(square, terms[::-1]) * square
    recurrence = torch.zeros_like(x)
    for term in reversed(range(_SERIES_START)):
        recurrence = recurrence + 1 / (start + term)
    result = torch.where(start < _SERIES_START, series - recurrence, series)
    fraction = x - torch.round(x)
    reflection = math.pi * torch.cos(math.pi * fraction) / torch.sin(math.pi * fraction)
    result = torch.where(x < 0, result - reflection, result)
    result = torch.where((x < 0) & (fraction == 0), math.nan, result)
    result = torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), result)
    return torch.where(x == math.inf, math.inf, torch.where(x == -math.inf, math.nan, result))


@in_float32(aten.polygamma.default)
def _polygamma(n: int, x: torch.Tensor) -> Any:
    torch._check(n >= 0, lambda: "polygamma(n, x) does not support negative n.")
    if n == 0:
        return _digamma(x)
    magnitude = torch.abs(x)
    fraction = magnitude - torch.floor(magnitude)
    # For negative x the series has positive terms and finitely many negative ones.
    positive_terms = _zeta(n + 1, torch.where(x > 0, x, 1 - fraction))
    negative_terms = _zeta(n + 1, fraction) - _zeta(n + 1, 1 + magnitude)
    total = positive_terms + (negative_terms if n % 2 else -negative_terms)
    total = torch.where(fraction == 0, math.inf, total)
    result = torch.where(x > 0, positive_terms, total)
    return (-1) ** (n + 1) * math.gamma(n + 1) * result


def _zeta(s: int, q: torch.Tensor) -> torch.Tensor:
    """Return the Hurwitz zeta function, the sum over k of (q + k) ** -s.

    The Euler-Maclaurin formula approximates the terms from `_SERIES_START` on.
    """
    inverse = 1 / (q + _SERIES_START)
    power = _power(inverse, s)
    square = inverse * inverse
    coefficients, factor = [], float(s)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        coefficients.append(factor * bernoulli / math.gamma(2 * k + 1))
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    corrections = polynomial(square, coefficients[::-1]) * inverse
    total = power * ((q + _SERIES_START) / (s - 1) + 0.5 + corrections)
    for term in reversed(range(_SERIES_START)):
        total = total + _power(1 / (q + term), s)
    return total


def _power(x: torch.Tensor, exponent: int) -> torch.Tensor:
    if exponent == 1:
        return x
    half = _power(x, exponent // 2)
    return half * half * x if exponent % 2 else half * half

"""Arithmetic that returns the same digits on every host: rationals, without the C library.

Logarithms, powers and exponentials are computed to 28 decimal digits and rounded to six places, far
above any difference between hosts.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

PS_PER_NS = 1000
ZERO = Fraction(0)
_CONTEXT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_PLACES = Decimal("0.000001")
_MIN_POWER = Fraction(1, 10**6)


def ceil_divide(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def total(amounts: Iterable[Fraction]) -> Fraction:
    """Return the sum. Zeros are skipped: most amounts are zero, and adding rationals is slow."""
    return sum((amount for amount in amounts if amount), ZERO)


@lru_cache(maxsize=4096)
def log2(value: Fraction) -> Fraction:
    return _rounded(_CONTEXT.divide(_CONTEXT.ln(_decimal(value)), _CONTEXT.ln(Decimal(2))))


@lru_cache(maxsize=4096)
def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Return the power of a positive base. It is never zero, so that one may divide by it."""
    return max(_MIN_POWER, _rounded(_CONTEXT.power(_decimal(base), _decimal(exponent))))


@lru_cache(maxsize=4096)
def exponential(value: Fraction) -> Fraction:
    return _rounded(_CONTEXT.exp(_decimal(value)))


def apportion(units: int, weights: list[Fraction]) -> list[int]:
    """Split an integer into integers in proportion to weights (largest remainder method)."""
    if not weights:
        return []
    if not any(weights):
        weights = [Fraction(1)] * len(weights)
    scale = units / total(weights)
    exact = [scale * weight for weight in weights]
    rounded = [int(amount) for amount in exact]
    by_remainder = sorted(range(len(rounded)), key=lambda i: (rounded[i] - exact[i], i))
    for index in by_remainder[: units - sum(rounded)]:
        rounded[index] += 1
    return rounded


def _decimal(value: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _rounded(value: Decimal) -> Fraction:
    return Fraction(value.quantize(_PLACES, context=_CONTEXT))

"""Arithmetic that gives the same digits on every host: rationals, and nothing of the C library.

The few functions that leave the rationals are computed to 28 decimal digits and rounded to six
places, which no difference between hosts could reach.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

PS_PER_NS = 1000
ZERO = Fraction(0)
_CONTEXT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_PLACES = Decimal("0.000001")
_SMALLEST = Fraction(1, 10**6)


def ceil_divide(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def total(amounts: Iterable[Fraction]) -> Fraction:
    """Their sum. Most amounts of most steps are zero, and adding rationals is slow."""
    return sum((amount for amount in amounts if amount), ZERO)


@lru_cache(maxsize=4096)
def log2(value: Fraction) -> Fraction:
    return _rounded(_CONTEXT.divide(_CONTEXT.ln(_decimal(value)), _CONTEXT.ln(Decimal(2))))


@lru_cache(maxsize=4096)
def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Of a positive base. Never zero, so that one may divide by it."""
    return max(_SMALLEST, _rounded(_CONTEXT.power(_decimal(base), _decimal(exponent))))


@lru_cache(maxsize=4096)
def exponential(value: Fraction) -> Fraction:
    return _rounded(_CONTEXT.exp(_decimal(value)))


def apportion(whole: int, weights: list[Fraction]) -> list[int]:
    """Splits a whole number by weight, exactly: the largest remainders get what rounding leaves."""
    if not weights:
        return []
    if not any(weights):
        weights = [Fraction(1)] * len(weights)
    scale = whole / total(weights)
    shares = [scale * weight for weight in weights]
    parts = [int(share) for share in shares]
    by_remainder = sorted(range(len(parts)), key=lambda i: (parts[i] - shares[i], i))
    for index in by_remainder[: whole - sum(parts)]:
        parts[index] += 1
    return parts


def _decimal(value: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _rounded(value: Decimal) -> Fraction:
    return Fraction(value.quantize(_PLACES, context=_CONTEXT))

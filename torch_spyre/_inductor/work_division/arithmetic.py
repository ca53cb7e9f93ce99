"""Divisors."""

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """Those of a positive number in ascending order, none above `most`."""
    limit = number if most is None else min(most, number)
    if limit <= isqrt(number):
        return tuple(each for each in range(1, limit + 1) if number % each == 0)
    small = [each for each in range(1, isqrt(number) + 1) if number % each == 0]
    return tuple(each for each in sorted({*small, *(number // s for s in small)}) if each <= limit)

"""Divisors of integers."""

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(number: int, limit: int | None = None) -> tuple[int, ...]:
    """Return the divisors of a positive integer up to `limit`, in ascending order."""
    largest = number if limit is None else min(limit, number)
    root = isqrt(number)
    if largest <= root:
        return tuple(divisor for divisor in range(1, largest + 1) if number % divisor == 0)
    small = [divisor for divisor in range(1, root + 1) if number % divisor == 0]
    large = [number // divisor for divisor in small]
    return tuple(divisor for divisor in sorted({*small, *large}) if divisor <= largest)

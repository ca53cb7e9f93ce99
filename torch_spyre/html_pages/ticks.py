"""Round positions of the ticks of an axis."""

import math


def ticks(begin: float, end: float, at_most: int, *, is_binary: bool = False) -> list[float]:
    """Return the multiples of a round step between two values, both included, at most so many.

    A round step is 1, 2 or 5 times a power of ten, or a power of two for bytes.
    """
    span = end - begin
    if span <= 0 or at_most < 2:
        return [begin]
    smallest = span / (at_most - 1)
    if is_binary:
        step = 2.0 ** math.ceil(math.log2(smallest) - 1e-9)
    else:
        power = 10.0 ** math.floor(math.log10(smallest) + 1e-9)
        step = next(
            power * factor for factor in (1, 2, 5, 10) if power * factor >= smallest * (1 - 1e-9)
        )
    first = math.ceil(begin / step - 1e-9)
    last = math.floor(end / step + 1e-9)
    return [index * step for index in range(first, last + 1)]

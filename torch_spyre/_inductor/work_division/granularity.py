"""Sizes that are only known when the kernel runs: what their splits must divide."""

import warnings
from dataclasses import dataclass

from torch_spyre import knobs
from torch_spyre._inductor.work_division.arithmetic import divisors
from torch_spyre.errors import GranularityError

# PyTorch sets this where the user said nothing, so it cannot be told from a wish for 2.
_UNSET_MINIMUM = 2


@dataclass(frozen=True)
class Granularity:
    """A dynamic size: at most `max_size`, and always a multiple of `granularity`.

    Plans are made for the largest size; splits divide the granularity, so they hold for every size.
    """

    max_size: int
    granularity: int

    def __post_init__(self) -> None:
        if self.granularity < 1 or self.max_size % self.granularity:
            raise GranularityError(
                self.max_size, f"it is no multiple of its granularity {self.granularity}"
            )


def granularity_of(
    max_size: int,
    min_size: int | None = None,
    *,
    max_buckets: int | None = None,
    smallest_default: int | None = None,
) -> Granularity:
    """The granularity of a size marked dynamic with these limits.

    A minimum that the user gave is the granularity. Without one it is the smallest divisor of the
    maximum that is at least `smallest_default` and makes no more than `max_buckets` sizes: if None,
    MIN_DEFAULT_GRANULARITY and MAX_BUCKETS.
    """
    buckets = knobs.division.max_buckets if max_buckets is None else max_buckets
    smallest = knobs.division.smallest_granularity if smallest_default is None else smallest_default
    if max_size < 1:
        raise GranularityError(max_size, "it must be positive")
    if min_size is not None and min_size > _UNSET_MINIMUM:
        if max_size % min_size:
            raise GranularityError(max_size, f"its minimum {min_size} does not divide it")
        if max_size // min_size > buckets:
            raise GranularityError(
                max_size,
                f"its minimum {min_size} makes {max_size // min_size} sizes, and "
                f"MAX_BUCKETS={buckets} allows {buckets}",
            )
        return Granularity(max_size, min_size)
    found = next(
        (each for each in divisors(max_size) if each >= smallest and max_size // each <= buckets),
        max_size,
    )
    warnings.warn(
        f"dynamic size up to {max_size} without a minimum: it must be a multiple of {found}. "
        f"mark_dynamic(..., min={found}) says so",
        stacklevel=2,
    )
    return Granularity(max_size, found)

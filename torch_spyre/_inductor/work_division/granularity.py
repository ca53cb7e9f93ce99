"""Granularity of dynamic sizes, which are known only when the kernel runs."""

import warnings
from dataclasses import dataclass

from torch_spyre import knobs
from torch_spyre._inductor.work_division.arithmetic import divisors
from torch_spyre.errors import GranularityError

# PyTorch sets this minimum by default, so it cannot be distinguished from a request for 2.
_UNSET_MINIMUM = 2


@dataclass(frozen=True)
class Granularity:
    """A dynamic size: at most `max_size`, and always a multiple of `granularity`.

    Plans are for the largest size; splits divide the granularity, so they are legal for every size.
    """

    max_size: int
    granularity: int

    def __post_init__(self) -> None:
        if self.granularity < 1 or self.max_size % self.granularity:
            raise GranularityError(
                self.max_size, f"it is not a multiple of its granularity {self.granularity}"
            )


def granularity_of(
    max_size: int,
    min_size: int | None = None,
    *,
    max_buckets: int | None = None,
    min_default: int | None = None,
) -> Granularity:
    """Return the granularity of a size that was marked dynamic with these limits.

    A minimum from the user is the granularity. Without one it is the smallest divisor of the
    maximum that is at least `min_default` (None: MIN_DEFAULT_GRANULARITY) and that allows at most
    `max_buckets` sizes (None: MAX_BUCKETS).
    """
    buckets = knobs.division.max_buckets if max_buckets is None else max_buckets
    minimum = knobs.division.smallest_granularity if min_default is None else min_default
    if max_size < 1:
        raise GranularityError(max_size, "it must be positive")
    if min_size is not None and min_size > _UNSET_MINIMUM:
        if max_size % min_size:
            raise GranularityError(max_size, f"its minimum {min_size} does not divide it")
        if max_size // min_size > buckets:
            raise GranularityError(
                max_size,
                f"its minimum {min_size} allows {max_size // min_size} sizes, but "
                f"MAX_BUCKETS={buckets} allows only {buckets}",
            )
        return Granularity(max_size, min_size)
    candidates = (
        divisor
        for divisor in divisors(max_size)
        if divisor >= minimum and max_size // divisor <= buckets
    )
    granularity = next(candidates, max_size)
    warnings.warn(
        f"dynamic size up to {max_size} without a minimum: it must be a multiple of "
        f"{granularity}. Call mark_dynamic(..., min={granularity}) to silence this warning",
        stacklevel=2,
    )
    return Granularity(max_size, granularity)

"""Intervals that contain the values of a tensor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Bounds:
    """The lowest and highest value that each element may have: float64, or int64 for integers.

    An element that is NaN in `low` and `high` must be NaN; one in `maybe_nan` may be. If all values
    are known, `high` is `low`.
    """

    low: torch.Tensor
    high: torch.Tensor
    # None if no element may be NaN but those that must.
    maybe_nan: torch.Tensor | None = None

    @staticmethod
    def exact(values: torch.Tensor) -> "Bounds":
        return Bounds(values, values)

    @staticmethod
    def unknown(shape: Sequence[int], *, is_float: bool) -> "Bounds":
        """Return bounds that contain every value."""
        if is_float:
            low = torch.full(tuple(shape), -torch.inf, dtype=torch.float64)
            return Bounds(low, -low, torch.ones(tuple(shape), dtype=torch.bool))
        limits = torch.iinfo(torch.int64)
        low = torch.full(tuple(shape), limits.min, dtype=torch.int64)
        return Bounds(low, torch.full_like(low, limits.max))

    @property
    def is_exact(self) -> bool:
        return self.high is self.low

    @property
    def is_float(self) -> bool:
        return self.low.is_floating_point()

    @property
    def shape(self) -> torch.Size:
        return self.low.shape

    @property
    def is_point(self) -> torch.Tensor:
        """Return which elements have one possible value."""
        if self.is_exact:
            return torch.ones_like(self.low, dtype=torch.bool)
        is_same = (self.low == self.high) | (self.low.isnan() & self.high.isnan())
        return is_same if self.maybe_nan is None else is_same & ~self.maybe_nan

    @property
    def may_be_nan(self) -> torch.Tensor:
        is_nan = self.low.isnan()
        return is_nan if self.maybe_nan is None else is_nan | self.maybe_nan

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "Bounds":
        """Apply a function that only rearranges elements."""
        low = function(self.low)
        high = low if self.is_exact else function(self.high)
        return Bounds(low, high, None if self.maybe_nan is None else function(self.maybe_nan))

    def monotone(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "Bounds":
        """Apply a function that never decreases."""
        low = function(self.low)
        return Bounds(low, low if self.is_exact else function(self.high), self.maybe_nan)

    def expand(self, shape: Sequence[int]) -> "Bounds":
        return self.map(lambda values: values.expand(tuple(shape)))

    def contains(self, values: torch.Tensor) -> torch.Tensor:
        """Return which of these values are within the bounds."""
        is_nan = values.isnan()
        is_inside = (values >= self.low) & (values <= self.high)
        return is_inside | (is_nan & self.may_be_nan)

    def is_unbounded(self) -> torch.Tensor:
        """Return the elements that may have any value."""
        if not self.is_float:
            limits = torch.iinfo(torch.int64)
            return (self.low == limits.min) & (self.high == limits.max)
        return (self.low == -torch.inf) & (self.high == torch.inf)


def hull(candidates: Sequence[torch.Tensor], maybe_nan: torch.Tensor | None) -> Bounds:
    """Return the smallest bounds that contain all candidates of each element.

    An element with a candidate that is NaN, and others that are not, may have any value.
    """
    if len(candidates) == 1:
        return Bounds(candidates[0], candidates[0], maybe_nan)
    low = high = candidates[0]
    for candidate in candidates[1:]:
        low, high = torch.minimum(low, candidate), torch.maximum(high, candidate)
    if not low.is_floating_point():
        return Bounds(low, high, maybe_nan)
    is_nan = [candidate.isnan() for candidate in candidates]
    some_nan, all_nan = is_nan[0], is_nan[0]
    for mask in is_nan[1:]:
        some_nan, all_nan = some_nan | mask, all_nan & mask
    some_nan = some_nan & ~all_nan
    if bool(some_nan.any()):
        low = torch.where(some_nan, -torch.inf, low)
        high = torch.where(some_nan, torch.inf, high)
        maybe_nan = some_nan if maybe_nan is None else some_nan | maybe_nan
    return Bounds(low, high, maybe_nan)


def any_nan(*operands: Bounds) -> torch.Tensor | None:
    """Return the elements for which an operand may be NaN; None if there are none."""
    masks = [operand.maybe_nan for operand in operands if operand.maybe_nan is not None]
    if not masks:
        return None
    result = masks[0]
    for mask in masks[1:]:
        result = result | mask
    return result

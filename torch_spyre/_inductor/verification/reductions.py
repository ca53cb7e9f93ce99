"""Bounds of reductions and matmuls, which the card accumulates in float32 in an order of its own.

An accumulation in which each term passes through n additions has an error of at most n roundings of
float32, relative to the sum of the magnitudes of the terms, in any order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torch_spyre._inductor.op_table import Kind, OpRecord
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre.errors import NoReferenceError

# One rounding of float32, its largest number and its smallest normal one.
FLOAT32_ROUNDING = 2.0**-24
FLOAT32_LARGEST = float(torch.finfo(torch.float32).max)
FLOAT32_SMALLEST = float(torch.finfo(torch.float32).tiny)
# The scale of a mean is rounded, and so is its multiplication.
_ROUNDINGS_OF_SCALE = 2


def reduce(
    record: OpRecord,
    operand: Bounds,
    dims: Sequence[int],
    constants: Sequence[float],
    cores: int,
) -> Bounds:
    """Return the bounds of a reduction of these dims, which remain with size 1.

    `cores` may each reduce a part, and combine their results.
    """
    rule = record.reduction
    if rule is None:
        raise NoReferenceError(f"{record.name}, a reduction without a rule")
    if record.kind is Kind.ARG_REDUCTION:
        return _index_of_extreme(operand, dims, is_maximum=rule.initial < 0)
    if not dims:
        dims = [0]
        operand = operand.map(lambda values: values.unsqueeze(0))
        result = reduce(record, operand, dims, constants, cores)
        return result.map(lambda values: values.squeeze(0))
    if math.isinf(rule.initial):
        return _extreme(operand, dims, is_maximum=rule.initial < 0)
    if rule.initial == 1:
        return _product(operand, dims)
    total = _sum(operand, dims, cores)
    return total if rule.scale is None else _scaled(total, *constants)


def _num_terms(operand: Bounds, dims: Sequence[int]) -> int:
    return math.prod(operand.shape[dim] for dim in dims)


def _nan_anywhere(operand: Bounds, dims: Sequence[int]) -> torch.Tensor | None:
    mask = operand.maybe_nan
    return None if mask is None else mask.any(tuple(dims), keepdim=True)


def _sum(operand: Bounds, dims: Sequence[int], cores: int) -> Bounds:
    axes = tuple(dims)
    low = operand.low.sum(axes, keepdim=True)
    if not operand.is_float:
        return Bounds.exact(low) if operand.is_exact else _integer_sum(operand, axes)
    high = low if operand.is_exact else operand.high.sum(axes, keepdim=True)
    magnitude = torch.maximum(operand.low.abs(), operand.high.abs()).sum(axes, keepdim=True)
    roundings = _num_terms(operand, dims) + cores
    return accumulated(low, high, magnitude, roundings, _nan_anywhere(operand, dims))


def _integer_sum(operand: Bounds, axes: tuple[int, ...]) -> Bounds:
    # In float64 first: unknown terms overflow 64 bits.
    sides = [side.to(torch.float64).sum(axes, keepdim=True) for side in (operand.low, operand.high)]
    limits = torch.iinfo(torch.int64)
    if bool((sides[0].abs().maximum(sides[1].abs()) > 2.0**62).any()):
        shape = sides[0].shape
        return Bounds(
            torch.full(shape, limits.min, dtype=torch.int64),
            torch.full(shape, limits.max, dtype=torch.int64),
        )
    return Bounds(operand.low.sum(axes, keepdim=True), operand.high.sum(axes, keepdim=True))


def accumulated(
    low: torch.Tensor,
    high: torch.Tensor,
    magnitude: torch.Tensor,
    roundings: int,
    maybe_nan: torch.Tensor | None,
) -> Bounds:
    """Return the bounds of a float32 accumulation.

    `magnitude` is the sum of the magnitudes of the terms; a term is rounded at most `roundings`
    times on its way into the sum.
    """
    error = roundings * (FLOAT32_ROUNDING * magnitude + FLOAT32_SMALLEST)
    # A sum of infinities is infinite or NaN in any order; others may overflow on the way.
    error = torch.where(magnitude.isinf(), 0.0, error)
    may_overflow = (magnitude > FLOAT32_LARGEST) & ~magnitude.isinf()
    low = torch.where(may_overflow, -torch.inf, low - error)
    high = torch.where(may_overflow, torch.inf, high + error)
    if bool(may_overflow.any()):
        maybe_nan = may_overflow if maybe_nan is None else maybe_nan | may_overflow
    is_nan = low.isnan() | high.isnan()
    if bool(is_nan.any()) and low is not high:
        is_certain = low.isnan() & high.isnan()
        is_unknown = is_nan & ~is_certain
        low = torch.where(is_unknown, -torch.inf, low)
        high = torch.where(is_unknown, torch.inf, high)
        maybe_nan = is_unknown if maybe_nan is None else maybe_nan | is_unknown
    return Bounds(low, high, maybe_nan)


def _scaled(total: Bounds, scale: float) -> Bounds:
    """Return a sum times a constant that is rounded to float32."""
    sides = [total.low * scale, total.high * scale]
    slack = _ROUNDINGS_OF_SCALE * FLOAT32_ROUNDING
    low, high = torch.minimum(*sides), torch.maximum(*sides)
    low = torch.where(low.isfinite(), low - slack * low.abs(), low)
    high = torch.where(high.isfinite(), high + slack * high.abs(), high)
    return Bounds(low, high, total.maybe_nan)


def _extreme(operand: Bounds, dims: Sequence[int], *, is_maximum: bool) -> Bounds:
    function = torch.amax if is_maximum else torch.amin
    axes = tuple(dims)
    low = function(operand.low, axes, keepdim=True)
    high = low if operand.is_exact else function(operand.high, axes, keepdim=True)
    return Bounds(low, high, _nan_anywhere(operand, dims))


def _product(operand: Bounds, dims: Sequence[int]) -> Bounds:
    def multiply(values: torch.Tensor) -> torch.Tensor:
        for dim in dims:
            values = values.prod(dim, keepdim=True)
        return values

    if not operand.is_float:
        if not operand.is_exact:
            raise NoReferenceError("a product of integers that are known within bounds only")
        # Wrapping at 64 bits and then at 32 is wrapping at 32.
        return Bounds.exact(multiply(operand.low))
    straddles = (operand.low < 0) & (operand.high > 0)
    smallest = torch.minimum(operand.low.abs(), operand.high.abs())
    smallest = torch.where(straddles, 0.0, smallest)
    largest = torch.maximum(operand.low.abs(), operand.high.abs())
    error = 2 * _num_terms(operand, dims) * FLOAT32_ROUNDING
    least, most = multiply(smallest) * (1 - error), multiply(largest) * (1 + error)
    # Partial products may underflow or overflow in some order.
    least = torch.where(multiply(smallest.clamp(max=1)) < FLOAT32_SMALLEST, 0.0, least)
    most = torch.where(multiply(smallest.clamp(max=1)) < FLOAT32_SMALLEST, most + 1e-30, most)
    may_overflow = multiply(largest.clamp(min=1)) > FLOAT32_LARGEST
    sign = multiply(torch.where(operand.low < 0, -1.0, 1.0))
    has_either_sign = straddles.sum(tuple(dims), keepdim=True) > 0
    low = torch.where(has_either_sign | (sign < 0), -most, least)
    high = torch.where(~has_either_sign & (sign < 0), -least, most)
    nan = _nan_anywhere(operand, dims)
    is_nan = operand.low.isnan().sum(tuple(dims), keepdim=True) > 0
    unknown = (may_overflow | low.isnan() | high.isnan()) & ~is_nan
    low = torch.where(unknown, -torch.inf, torch.where(is_nan, torch.nan, low))
    high = torch.where(unknown, torch.inf, torch.where(is_nan, torch.nan, high))
    return Bounds(low, high, unknown if nan is None else nan | unknown)


def _index_of_extreme(operand: Bounds, dims: Sequence[int], *, is_maximum: bool) -> Bounds:
    """Return the index of the first extreme, counted in the order of the reduced dims."""
    rank = len(operand.shape)
    remaining = [dim for dim in range(rank) if dim not in dims]
    order = (*remaining, *sorted(dims))
    shape = [1 if dim in dims else operand.shape[dim] for dim in range(rank)]

    def flat(values: torch.Tensor) -> torch.Tensor:
        return values.permute(order).reshape(*(operand.shape[dim] for dim in remaining), -1)

    def first(mask: torch.Tensor) -> torch.Tensor:
        return mask.to(torch.uint8).argmax(-1).view(shape)

    low, high = flat(operand.low), flat(operand.high)
    if operand.is_float:
        # NaN is more extreme than any number.
        limit = torch.inf if is_maximum else -torch.inf
        nan = flat(operand.may_be_nan)
        must_be_nan = low.isnan()
        if bool(nan.any()):
            # Above every other value, also infinity.
            is_first = first(must_be_nan)
            has_nan = must_be_nan.any(-1).view(shape)
            clean = Bounds(torch.where(nan, limit, low), torch.where(nan, limit, high))
            numbers = _candidates(clean.low, clean.high, is_maximum)
            uncertain = (nan & ~must_be_nan).any(-1).view(shape)
            last = low.shape[-1] - 1 - first(numbers.flip(-1))
            low_index = torch.where(
                has_nan & ~uncertain, is_first, torch.where(uncertain, 0, first(numbers))
            )
            high_index = torch.where(
                has_nan & ~uncertain, is_first, torch.where(uncertain, low.shape[-1] - 1, last)
            )
            return Bounds(low_index, low_index if operand.is_exact else high_index)
    candidates = _candidates(low, high, is_maximum)
    lowest = first(candidates)
    if operand.is_exact:
        return Bounds.exact(lowest)
    return Bounds(lowest, low.shape[-1] - 1 - first(candidates.flip(-1)))


def _candidates(low: torch.Tensor, high: torch.Tensor, is_maximum: bool) -> torch.Tensor:
    """Return the elements that may be the extreme of the last dim."""
    if is_maximum:
        return high >= low.amax(-1, keepdim=True)
    return low <= high.amin(-1, keepdim=True)


@dataclass(frozen=True)
class Factor:
    """A factor of a contraction: its bounds, whose dims are those of the iteration space."""

    bounds: Bounds

    @property
    def middle(self) -> torch.Tensor:
        if self.bounds.is_exact:
            return self.bounds.low
        return (self.bounds.low + self.bounds.high) / 2

    @property
    def radius(self) -> torch.Tensor | None:
        if self.bounds.is_exact:
            return None
        return (self.bounds.high - self.bounds.low) / 2


def contract(left: torch.Tensor, right: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """Return the sum over `dims` of an elementwise product; the dims remain with size 1.

    Dims of size 1 are broadcast; the product itself is never built.
    """
    rank = left.dim()
    operands: list[torch.Tensor | list[int]] = []
    for factor in (left, right):
        present = [dim for dim in range(rank) if factor.shape[dim] > 1]
        operands += [factor.reshape([factor.shape[dim] for dim in present]), present]
    shape = torch.broadcast_shapes(left.shape, right.shape)
    result_dims = [dim for dim in range(rank) if dim not in dims and shape[dim] > 1]
    result = torch.einsum(*operands, result_dims)
    return result.reshape([1 if dim in dims else shape[dim] for dim in range(rank)])


def with_nan_unknown(bounds: Bounds) -> Bounds:
    """Return the bounds with any value allowed where an end is NaN."""
    is_nan = bounds.low.isnan() | bounds.high.isnan()
    if not bool(is_nan.any()):
        return bounds
    maybe_nan = is_nan if bounds.maybe_nan is None else bounds.maybe_nan | is_nan
    low = torch.where(is_nan, -torch.inf, bounds.low)
    return Bounds(low, torch.where(is_nan, torch.inf, bounds.high), maybe_nan)


def matmul(
    left: Bounds, right: Bounds, dims: Sequence[int], sizes: Sequence[int], cores: int
) -> Bounds:
    """Return the bounds of the sum of products over `dims` of an iteration space."""
    roundings = math.prod(sizes[dim] for dim in dims) + cores
    # Reduced dims that neither factor depends on repeat the sum.
    repeats = math.prod(
        sizes[dim] for dim in dims if left.shape[dim] == 1 and right.shape[dim] == 1
    )
    if not left.is_float:
        if not (left.is_exact and right.is_exact):
            raise NoReferenceError("a matmul of integers that are known within bounds only")
        return Bounds.exact(repeats * contract(left.low, right.low, dims))
    a, b = Factor(left), Factor(right)
    middle = repeats * contract(a.middle, b.middle, dims)
    sizes_a = torch.maximum(left.low.abs(), left.high.abs())
    sizes_b = torch.maximum(right.low.abs(), right.high.abs())
    magnitude = repeats * contract(sizes_a, sizes_b, dims)
    radius: torch.Tensor | float = 0.0
    if a.radius is not None:
        radius = radius + repeats * contract(a.radius, sizes_b, dims)
    if b.radius is not None:
        radius = radius + repeats * contract(a.middle.abs(), b.radius, dims)
    maybe_nan = None
    if left.maybe_nan is not None or right.maybe_nan is not None:
        masks = [
            torch.zeros_like(side.low) if side.maybe_nan is None else side.maybe_nan.double()
            for side in (left, right)
        ]
        ones = [torch.ones_like(side.low) for side in (left, right)]
        maybe_nan = (contract(masks[0], ones[1], dims) + contract(ones[0], masks[1], dims)) > 0
    result = accumulated(middle - radius, middle + radius, magnitude, roundings, maybe_nan)
    if left.is_exact and right.is_exact:
        return result
    # The radius of an unbounded factor is infinite, and its middle is not a number.
    return with_nan_unknown(result)

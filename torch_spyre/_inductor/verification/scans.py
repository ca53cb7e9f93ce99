"""Bounds of scans: cumulative reductions along one loop of an op of several loops."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from sympy import Symbol

from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.reductions import (
    FLOAT32_LARGEST,
    FLOAT32_ROUNDING,
    FLOAT32_SMALLEST,
    accumulated,
    with_nan_unknown,
)
from torch_spyre.errors import NoReferenceError

# Roundings of one logaddexp, relative to its result plus one: the difference, the exponential, the
# logarithm and the sum.
_LOGADDEXP_ROUNDINGS = 8


def scan(
    combine: str,
    operand: Bounds,
    grid: Grid,
    scanned: Sequence[Symbol],
    column: Sequence[Symbol],
) -> Bounds:
    """Return the scan of an operand along the scanned symbols, as a tensor along the column.

    `combine` is add, mul, max, min or logaddexp. The symbols of a role are outermost first.
    """
    if combine not in _SCANS:
        raise NoReferenceError(f"a scan with {combine}")
    scanned_dims, column_dims = ([grid.dims[s] for s in symbols] for symbols in (scanned, column))
    shape = list(torch.broadcast_shapes(operand.shape, _sized(grid, scanned_dims)))
    remaining = [dim for dim in range(len(shape)) if dim not in (*scanned_dims, *column_dims)]
    order = [*remaining, *column_dims, *scanned_dims]
    rows = operand.expand(shape).map(
        lambda values: values.permute(order).reshape(*(shape[dim] for dim in remaining), -1)
    )
    result = _SCANS[combine](rows)
    # The dims of the column take the place of the scanned ones.
    sizes = [
        *(shape[dim] for dim in remaining),
        *(grid.shape[dim] for dim in column_dims),
        *(1 for _ in scanned_dims),
    ]
    inverse = [order.index(dim) for dim in range(len(order))]
    return result.map(lambda values: values.reshape(sizes).permute(inverse))


def _sized(grid: Grid, dims: Sequence[int]) -> list[int]:
    return [size if dim in dims else 1 for dim, size in enumerate(grid.shape)]


def _nan_so_far(rows: Bounds) -> torch.Tensor | None:
    if rows.maybe_nan is None:
        return None
    return rows.maybe_nan.to(torch.int8).cummax(-1).values.bool()


def _sum(rows: Bounds) -> Bounds:
    low = rows.low.cumsum(-1)
    if not rows.is_float:
        if not rows.is_exact:
            raise NoReferenceError("a scan of integers that are known within bounds only")
        return Bounds.exact(low)
    high = low if rows.is_exact else rows.high.cumsum(-1)
    magnitude = torch.maximum(rows.low.abs(), rows.high.abs()).cumsum(-1)
    result = accumulated(low, high, magnitude, rows.shape[-1], _nan_so_far(rows))
    return result if rows.is_exact else with_nan_unknown(result)


def _product(rows: Bounds) -> Bounds:
    if not rows.is_float:
        if not rows.is_exact:
            raise NoReferenceError("a scan of integers that are known within bounds only")
        return Bounds.exact(rows.low.cumprod(-1))
    straddles = (rows.low < 0) & (rows.high > 0)
    smallest = torch.minimum(rows.low.abs(), rows.high.abs())
    smallest = torch.where(straddles, 0.0, smallest)
    largest = torch.maximum(rows.low.abs(), rows.high.abs())
    error = 2 * rows.shape[-1] * FLOAT32_ROUNDING
    least, most = smallest.cumprod(-1) * (1 - error), largest.cumprod(-1) * (1 + error)
    # Products of some of the elements may underflow or overflow.
    may_underflow = smallest.clamp(max=1).cumprod(-1) < FLOAT32_SMALLEST
    least = torch.where(may_underflow, 0.0, least)
    most = torch.where(may_underflow, most + FLOAT32_SMALLEST, most)
    may_overflow = largest.clamp(min=1).cumprod(-1) > FLOAT32_LARGEST
    sign = torch.where(rows.low < 0, -1.0, 1.0).cumprod(-1)
    has_either_sign = straddles.to(torch.int8).cummax(-1).values.bool()
    low = torch.where(has_either_sign | (sign < 0), -most, least)
    high = torch.where(~has_either_sign & (sign < 0), -least, most)
    is_nan = rows.low.isnan().to(torch.int8).cummax(-1).values.bool()
    is_unknown = may_overflow & ~is_nan
    low = torch.where(is_unknown, -torch.inf, torch.where(is_nan, torch.nan, low))
    high = torch.where(is_unknown, torch.inf, torch.where(is_nan, torch.nan, high))
    nan = _nan_so_far(rows)
    return Bounds(low, high, is_unknown if nan is None else nan | is_unknown)


def _extreme(function: Callable[..., tuple[torch.Tensor, torch.Tensor]], rows: Bounds) -> Bounds:
    low, _ = function(rows.low, -1)
    high = low if rows.is_exact else function(rows.high, -1)[0]
    return Bounds(low, high, _nan_so_far(rows))


def _log_sum_of_exponentials(rows: Bounds) -> Bounds:
    low = rows.low.logcumsumexp(-1)
    high = low if rows.is_exact else rows.high.logcumsumexp(-1)
    largest = torch.maximum(low.abs(), high.abs()).nan_to_num(posinf=0.0, nan=0.0)
    magnitude = largest.cummax(-1).values + 1 + math.log(max(rows.shape[-1], 1))
    error = rows.shape[-1] * _LOGADDEXP_ROUNDINGS * FLOAT32_ROUNDING * magnitude
    low = torch.where(low.isfinite(), low - error, low)
    high = torch.where(high.isfinite(), high + error, high)
    return Bounds(low, high, _nan_so_far(rows))


_SCANS: Mapping[str, Callable[[Bounds], Bounds]] = {
    "add": _sum,
    "mul": _product,
    "max": lambda rows: _extreme(torch.cummax, rows),
    "min": lambda rows: _extreme(torch.cummin, rows),
    "logaddexp": _log_sum_of_exponentials,
}

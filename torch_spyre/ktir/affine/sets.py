"""Integer points of affine sets: membership, enumeration, bounds.

A set whose every constraint names one dim is a box, and boxes take a fast path everywhere. Other
sets are enclosed in a box first, whose points are then tested with NumPy.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
    AffineSet,
)

from torch_spyre.errors import SetError
from torch_spyre.ktir.affine.bounding import Interval, enclosing_box
from torch_spyre.ktir.affine.expressions import IntegerArray, Linearizer, evaluate

# A set is enumerated by testing every point of a box around it: so many take about a second.
MAX_CANDIDATES = 1 << 24
# The points of a set that can be listed; a 2 MiB scratchpad holds fewer elements.
MAX_POINTS = 1 << 22
_POINTS_PER_STEP = 1 << 20


def box_set(sizes: Sequence[int]) -> AffineSet:
    """Return the set of all coordinates of an array of these sizes."""
    zero = AffineExpr.constant(0)
    constraints = []
    for position, size in enumerate(sizes):
        dim = AffineExpr.dimension(position)
        constraints.append(AffineConstraintExpr(AffineConstraintKind.ge, dim, zero))
        constraints.append(AffineConstraintExpr(AffineConstraintKind.ge, -dim + (size - 1), zero))
    return AffineSet(len(sizes), 0, tuple(constraints))


def bind_symbols(affine_set: AffineSet, symbols: Sequence[int]) -> AffineSet:
    """Return the set with a constant substituted for each symbol."""
    _check_symbols(affine_set, symbols)
    values = [AffineExpr.constant(value) for value in symbols]
    return AffineSet(
        affine_set.num_dims,
        0,
        tuple(
            AffineConstraintExpr(
                constraint.kind,
                constraint.lhs.replace_dims_and_symbols((), values),
                constraint.rhs.replace_dims_and_symbols((), values),
            )
            for constraint in affine_set.constraints
        ),
    )


def as_box(affine_set: AffineSet, symbols: Sequence[int] = ()) -> tuple[Interval, ...] | None:
    """Return the interval of each dim if every constraint names at most one dim, otherwise None.

    Intervals include both ends; an empty set has an interval with `high < low`.
    """
    _check_symbols(affine_set, symbols)
    return _as_box(affine_set, tuple(symbols))


@lru_cache(maxsize=4096)
def _as_box(affine_set: AffineSet, symbols: tuple[int, ...]) -> tuple[Interval, ...] | None:
    linearizer = Linearizer(affine_set.num_dims, symbols)
    lows: list[int | None] = [None] * affine_set.num_dims
    highs: list[int | None] = [None] * affine_set.num_dims
    is_empty = False
    for constraint in affine_set.constraints:
        form = linearizer.linearize(constraint.lhs).plus(linearizer.linearize(constraint.rhs), -1)
        if linearizer.inequalities or len(form.coefficients) > 1:
            return None
        for sign in _signs(constraint.kind):
            if not form.coefficients:
                is_empty |= sign * form.constant < 0
                continue
            ((dim, coefficient),) = form.coefficients.items()
            low, high = lows[dim], highs[dim]
            if sign * coefficient > 0:
                limit = -((sign * form.constant) // (sign * coefficient))
                lows[dim] = limit if low is None else max(low, limit)
            else:
                limit = (sign * form.constant) // (-sign * coefficient)
                highs[dim] = limit if high is None else min(high, limit)
    box = []
    for dim, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low is None or high is None:
            if not is_empty:
                raise SetError(affine_set, f"unbounded along d{dim}")
            low, high = 0, -1
        box.append(Interval(low, high))
    if is_empty and box:
        box[0] = Interval(0, -1)
    return None if is_empty and not box else tuple(box)


def _signs(kind: AffineConstraintKind) -> tuple[int, ...]:
    """Return the factors that turn `form kind 0` into `factor * form >= 0`."""
    signs = {
        AffineConstraintKind.ge: (1,),
        AffineConstraintKind.le: (-1,),
        AffineConstraintKind.eq: (1, -1),
    }
    return signs[kind]


def contains(
    affine_set: AffineSet, candidates: IntegerArray, symbols: Sequence[int] = ()
) -> NDArray[np.bool_]:
    """Return for each row of `candidates`, of shape (count, dims), whether the set contains it."""
    _check_symbols(affine_set, symbols)
    columns = list(candidates.T)
    is_member = np.ones(len(candidates), np.bool_)
    for constraint in affine_set.constraints:
        left = evaluate(constraint.lhs, columns, symbols)
        right = evaluate(constraint.rhs, columns, symbols)
        match constraint.kind:
            case AffineConstraintKind.ge:
                is_member &= np.asarray(left >= right)
            case AffineConstraintKind.le:
                is_member &= np.asarray(left <= right)
            case AffineConstraintKind.eq:
                is_member &= np.asarray(left == right)
    return is_member


def points(affine_set: AffineSet, symbols: Sequence[int] = ()) -> IntegerArray:
    """Return all points of the set, of shape (count, dims), in lexicographic order."""
    box = as_box(affine_set, symbols)
    if box is not None:
        _check_size(affine_set, box, MAX_POINTS)
        return _box_points(box)
    slabs = [np.empty((0, affine_set.num_dims), np.int64)]
    count = 0
    for slab in _member_slabs(affine_set, symbols):
        count += len(slab)
        if count > MAX_POINTS:
            raise SetError(affine_set, f"more than {MAX_POINTS} points, which is the limit")
        slabs.append(slab)
    return np.concatenate(slabs)


def count_points(affine_set: AffineSet, symbols: Sequence[int] = ()) -> int:
    """Return the number of points of the set."""
    box = as_box(affine_set, symbols)
    if box is not None:
        return math.prod(interval.size for interval in box)
    return sum(len(slab) for slab in _member_slabs(affine_set, symbols))


def bounds(affine_set: AffineSet, symbols: Sequence[int] = ()) -> tuple[Interval, ...] | None:
    """Return the smallest box that contains the set, or None if the set is empty."""
    box = as_box(affine_set, symbols)
    if box is not None:
        return box if all(interval.size for interval in box) else None
    if affine_set.num_dims == 0:
        return () if count_points(affine_set, symbols) else None
    corners = [
        corner
        for slab in _member_slabs(affine_set, symbols)
        if len(slab)
        for corner in (slab.min(0), slab.max(0))
    ]
    if not corners:
        return None
    lows, highs = np.min(corners, 0).tolist(), np.max(corners, 0).tolist()
    return tuple(Interval(low, high) for low, high in zip(lows, highs, strict=True))


def _member_slabs(affine_set: AffineSet, symbols: Sequence[int]) -> Iterator[IntegerArray]:
    """Yield the points of a set in lexicographic order, in chunks of bounded size."""
    box = enclosing_box(affine_set, tuple(symbols))
    _check_size(affine_set, box, MAX_CANDIDATES)
    for slab in _box_slabs(box):
        yield slab[contains(affine_set, slab, symbols)]


def _check_symbols(affine_set: AffineSet, symbols: Sequence[int]) -> None:
    if len(symbols) != affine_set.num_symbols:
        raise SetError(
            affine_set,
            f"{affine_set.num_symbols} symbols need values, {len(symbols)} given; pass one each",
        )


def _check_size(affine_set: AffineSet, box: Sequence[Interval], limit: int) -> None:
    size = math.prod(interval.size for interval in box)
    if size > limit:
        raise SetError(affine_set, f"{size} points to enumerate; the limit is {limit}")
    if any(max(abs(interval.low), abs(interval.high)) >= 1 << 62 for interval in box):
        raise SetError(affine_set, "coordinates beyond 64 bits")


def _box_points(box: Sequence[Interval]) -> IntegerArray:
    if not box:
        return np.empty((1, 0), np.int64)
    grid = np.indices([interval.size for interval in box], np.int64).reshape(len(box), -1)
    return np.ascontiguousarray(grid.T + np.array([interval.low for interval in box]))


def _box_slabs(box: Sequence[Interval]) -> Iterator[IntegerArray]:
    """Yield the points of a box in lexicographic order, in chunks of bounded size."""
    if not box:
        yield _box_points(box)
        return
    first, *inner_box = box
    if not first.size:
        return
    inner_size = math.prod(interval.size for interval in inner_box)
    if inner_size > _POINTS_PER_STEP:
        for value in range(first.low, first.high + 1):
            for slab in _box_slabs(inner_box):
                column = np.full((len(slab), 1), value, np.int64)
                yield np.concatenate([column, slab], axis=1)
        return
    step = max(1, _POINTS_PER_STEP // max(1, inner_size))
    for low in itertools.islice(itertools.count(first.low, step), -(-first.size // step)):
        yield _box_points([Interval(low, min(low + step - 1, first.high)), *inner_box])

"""Compute a box that encloses an affine set from its constraints.

Intervals are narrowed constraint by constraint until nothing changes; dims that this leaves
unbounded are bounded by Fourier-Motzkin elimination of the other variables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir.affine import AffineConstraintKind, AffineSet

from torch_spyre.errors import SetError
from torch_spyre.ktir.affine.expressions import LinearForm, Linearizer

_MAX_ROUNDS = 64
_MAX_ROWS = 2000


@dataclass(frozen=True)
class Interval:
    """The integers from `low` to `high`, both included."""

    low: int
    high: int

    @property
    def size(self) -> int:
        return max(0, self.high - self.low + 1)


@dataclass
class _PartialInterval:
    """An interval that may still be unbounded at either end."""

    low: int | None = None
    high: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high


@lru_cache(maxsize=1024)
def enclosing_box(affine_set: AffineSet, symbols: tuple[int, ...]) -> tuple[Interval, ...]:
    """Return a box that contains the set, not always the smallest. Raise SetError if unbounded."""
    linearizer = Linearizer(affine_set.num_dims, symbols)
    rows = []
    for constraint in affine_set.constraints:
        form = linearizer.linearize(constraint.lhs).plus(linearizer.linearize(constraint.rhs), -1)
        negated = LinearForm({}, 0).plus(form, -1)
        if constraint.kind is not AffineConstraintKind.le:
            rows.append(form)
        if constraint.kind is not AffineConstraintKind.ge:
            rows.append(negated)
    rows += linearizer.inequalities
    ranges = _narrow(rows, linearizer.num_variables)
    for dim in range(affine_set.num_dims):
        if ranges[dim].low is None or ranges[dim].high is None:
            ranges[dim] = _eliminate_all_but(dim, rows, affine_set)
    return tuple(_closed(affine_set, dim, ranges[dim]) for dim in range(affine_set.num_dims))


def _closed(affine_set: AffineSet, dim: int, interval: _PartialInterval) -> Interval:
    if interval.low is None or interval.high is None:
        raise SetError(affine_set, f"unbounded along d{dim}")
    return Interval(interval.low, interval.high)


def _narrow(rows: Sequence[LinearForm], num_variables: int) -> list[_PartialInterval]:
    """Return the interval of every variable, narrowed until nothing changes."""
    ranges = [_PartialInterval() for _ in range(num_variables)]
    for _ in range(_MAX_ROUNDS):
        changed = [_narrow_by(row, ranges) for row in rows]
        if any(interval.is_empty for interval in ranges):
            return [_PartialInterval(0, -1) for _ in range(num_variables)]
        if not any(changed):
            break
    return ranges


def _narrow_by(row: LinearForm, ranges: list[_PartialInterval]) -> bool:
    """Bound each variable of `row >= 0` by the maximum of the other terms.

    Returns whether an interval became smaller.
    """
    maxima: dict[int, int | None] = {}
    for variable, coefficient in row.coefficients.items():
        end = ranges[variable].high if coefficient > 0 else ranges[variable].low
        maxima[variable] = None if end is None else coefficient * end
    changed = False
    for variable, coefficient in row.coefficients.items():
        remainder = row.constant
        for other_variable, value in maxima.items():
            if other_variable == variable:
                continue
            if value is None:
                break
            remainder += value
        else:
            changed |= _tighten(ranges[variable], coefficient, remainder)
    return changed


def _tighten(interval: _PartialInterval, coefficient: int, remainder: int) -> bool:
    """Narrow the interval of x by `coefficient * x + remainder >= 0`; return whether it changed."""
    if coefficient > 0:
        limit = -(remainder // coefficient)
        if interval.low is None or limit > interval.low:
            interval.low = limit
            return True
        return False
    limit = remainder // -coefficient
    if interval.high is None or limit < interval.high:
        interval.high = limit
        return True
    return False


def _eliminate_all_but(
    dim: int, rows: Sequence[LinearForm], affine_set: AffineSet
) -> _PartialInterval:
    """Return the interval of one dim after eliminating every other variable."""
    remaining = list(rows)
    variables = {variable for row in rows for variable in row.coefficients} - {dim}
    for variable in sorted(variables):
        uppers = [row for row in remaining if row.coefficients.get(variable, 0) < 0]
        lowers = [row for row in remaining if row.coefficients.get(variable, 0) > 0]
        remaining = [row for row in remaining if variable not in row.coefficients]
        if len(uppers) * len(lowers) + len(remaining) > _MAX_ROWS:
            raise SetError(affine_set, f"too many coupled constraints to bound d{dim}")
        for upper in uppers:
            for lower in lowers:
                scaled = LinearForm({}, 0).plus(upper, lower.coefficients[variable])
                remaining.append(scaled.plus(lower, -upper.coefficients[variable]))
    interval = _PartialInterval()
    for row in remaining:
        if row.coefficients:
            _tighten(interval, row.coefficients[dim], row.constant)
        elif row.constant < 0:
            return _PartialInterval(0, -1)
    return interval

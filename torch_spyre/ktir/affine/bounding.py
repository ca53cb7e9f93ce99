"""A box that encloses an affine set, from its constraints alone.

Intervals are narrowed constraint by constraint until nothing changes; dims that this leaves open
are bounded by eliminating the other variables (Fourier and Motzkin's method).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir.affine import AffineConstraintKind, AffineSet

from torch_spyre.ktir.affine.expressions import LinearForm, Linearizer
from torch_spyre.ktir.errors import SetError

_MOST_ROUNDS = 64
_MOST_ROWS = 2000


@dataclass(frozen=True)
class Interval:
    """The integers from `low` to `high`, both included."""

    low: int
    high: int

    @property
    def size(self) -> int:
        return max(0, self.high - self.low + 1)


@dataclass
class _Range:
    """An interval that may still be open at either end."""

    low: int | None = None
    high: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high


@lru_cache(maxsize=1024)
def enclosing_box(affine_set: AffineSet, symbols: tuple[int, ...]) -> tuple[Interval, ...]:
    """A box around the set, not always the smallest. Raises SetError if there is none."""
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


def _closed(affine_set: AffineSet, dim: int, found: _Range) -> Interval:
    if found.low is None or found.high is None:
        raise SetError(affine_set, f"unbounded along d{dim}")
    return Interval(found.low, found.high)


def _narrow(rows: Sequence[LinearForm], num_variables: int) -> list[_Range]:
    ranges = [_Range() for _ in range(num_variables)]
    for _ in range(_MOST_ROUNDS):
        changed = [_narrow_by(row, ranges) for row in rows]
        if any(found.is_empty for found in ranges):
            return [_Range(0, -1) for _ in range(num_variables)]
        if not any(changed):
            break
    return ranges


def _narrow_by(row: LinearForm, ranges: list[_Range]) -> bool:
    """Uses `row >= 0` to bound each of its variables by the largest value of the others."""
    largest: dict[int, int | None] = {}
    for variable, coefficient in row.coefficients.items():
        end = ranges[variable].high if coefficient > 0 else ranges[variable].low
        largest[variable] = None if end is None else coefficient * end
    changed = False
    for variable, coefficient in row.coefficients.items():
        rest = row.constant
        for other, value in largest.items():
            if other == variable:
                continue
            if value is None:
                break
            rest += value
        else:
            changed |= _tighten(ranges[variable], coefficient, rest)
    return changed


def _tighten(found: _Range, coefficient: int, rest: int) -> bool:
    """Uses `coefficient * x + rest >= 0`."""
    if coefficient > 0:
        limit = -(rest // coefficient)
        if found.low is None or limit > found.low:
            found.low = limit
            return True
        return False
    limit = rest // -coefficient
    if found.high is None or limit < found.high:
        found.high = limit
        return True
    return False


def _eliminate_all_but(dim: int, rows: Sequence[LinearForm], affine_set: AffineSet) -> _Range:
    remaining = list(rows)
    variables = {variable for row in rows for variable in row.coefficients} - {dim}
    for variable in sorted(variables):
        uppers = [row for row in remaining if row.coefficients.get(variable, 0) < 0]
        lowers = [row for row in remaining if row.coefficients.get(variable, 0) > 0]
        remaining = [row for row in remaining if variable not in row.coefficients]
        if len(uppers) * len(lowers) + len(remaining) > _MOST_ROWS:
            raise SetError(affine_set, f"too entangled to bound along d{dim}")
        for upper in uppers:
            for lower in lowers:
                scaled = LinearForm({}, 0).plus(upper, lower.coefficients[variable])
                remaining.append(scaled.plus(lower, -upper.coefficients[variable]))
    found = _Range()
    for row in remaining:
        if row.coefficients:
            _tighten(found, row.coefficients[dim], row.constant)
        elif row.constant < 0:
            return _Range(0, -1)
    return found

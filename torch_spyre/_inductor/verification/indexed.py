"""Bounds of gathers and scatters along one loop of an op of several loops."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sympy import Symbol

from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.reductions import accumulated, with_nan_unknown
from torch_spyre.errors import NoReferenceError


@dataclass(frozen=True)
class _Rows:
    """Arranges operands as tensors whose last dim is the column or the scanned dim."""

    grid: Grid
    scanned: Sequence[int]
    column: Sequence[int]

    @property
    def unindexed(self) -> list[int]:
        used = (*self.scanned, *self.column)
        return [dim for dim in range(len(self.grid.shape)) if dim not in used]

    def along(self, operand: Bounds, dims: Sequence[int]) -> Bounds:
        """Return an operand that does not depend on the dims that are not in `dims`."""
        shape = self.grid.shape
        sizes = [size if d in (*self.unindexed, *dims) else 1 for d, size in enumerate(shape)]
        unused = [d for d in (*self.scanned, *self.column) if d not in dims]
        order = [*self.unindexed, *dims, *unused]
        lengths = [shape[d] for d in self.unindexed]
        return operand.expand(sizes).map(lambda values: values.permute(order).reshape(*lengths, -1))

    def result(self, rows: Bounds) -> Bounds:
        """Return rows along the column as a tensor of the dims of the iteration space."""
        shape = self.grid.shape
        order = [*self.unindexed, *self.column, *self.scanned]
        sizes = [*(shape[d] for d in (*self.unindexed, *self.column)), *(1 for _ in self.scanned)]
        inverse = [order.index(d) for d in range(len(order))]
        return rows.map(lambda values: values.reshape(sizes).permute(inverse))


def _rows(grid: Grid, scanned: Sequence[Symbol], column: Sequence[Symbol]) -> _Rows:
    return _Rows(grid, [grid.dims[s] for s in scanned], [grid.dims[s] for s in column])


def _indices(index: Bounds) -> torch.Tensor:
    if not bool(index.is_point.all()):
        raise NoReferenceError("indices that are known within bounds only")
    return index.low.to(torch.int64)


def gather(
    table: Bounds,
    index: Bounds,
    grid: Grid,
    scanned: Sequence[Symbol],
    column: Sequence[Symbol],
) -> Bounds:
    """Return the elements of a table, along the scanned symbols, at indices along the column."""
    rows = _rows(grid, scanned, column)
    selected = _indices(rows.along(index, rows.column))
    elements = rows.along(table, rows.scanned)
    return rows.result(elements.map(lambda values: values.gather(-1, selected)))


def scatter(
    reduce: str,
    target: Bounds,
    index: Bounds,
    values: Bounds,
    grid: Grid,
    scanned: Sequence[Symbol],
    column: Sequence[Symbol],
) -> Bounds:
    """Return a target, along the column, with values scattered to indices along scanned symbols.

    `reduce` is set, sum, amax or amin; for other reductions there is no reference.
    """
    rows = _rows(grid, scanned, column)
    selected = _indices(rows.along(index, rows.scanned))
    initial, stored = rows.along(target, rows.column), rows.along(values, rows.scanned)
    if reduce == "set":
        return rows.result(_last(initial, selected, stored))
    if reduce == "sum":
        return rows.result(_sum(initial, selected, stored))
    if reduce not in ("amax", "amin"):
        raise NoReferenceError(f"a scatter with {reduce}")
    low = initial.low.scatter_reduce(-1, selected, stored.low, reduce)
    high = initial.high.scatter_reduce(-1, selected, stored.high, reduce)
    return rows.result(with_nan_unknown(Bounds(low, high, _maybe_nan(initial, selected, stored))))


def _last(initial: Bounds, selected: torch.Tensor, stored: Bounds) -> Bounds:
    """Return the last value that is stored at each element."""
    order = torch.arange(selected.shape[-1]).expand(selected.shape)
    none = torch.full(initial.shape, -1)
    last = none.scatter_reduce(-1, selected, order, "amax")
    sources = [initial, stored]
    masks = [
        torch.zeros(s.shape, dtype=torch.bool) if s.maybe_nan is None else s.maybe_nan
        for s in sources
    ]

    def choose(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return torch.where(last >= 0, new.gather(-1, last.clamp(min=0)), old)

    return Bounds(
        choose(initial.low, stored.low), choose(initial.high, stored.high), choose(*masks)
    )


def _sum(initial: Bounds, selected: torch.Tensor, stored: Bounds) -> Bounds:
    is_exact = initial.is_exact and stored.is_exact
    low = initial.low.scatter_add(-1, selected, stored.low)
    if not initial.is_float:
        if not is_exact:
            raise NoReferenceError("a scatter of integers that are known within bounds only")
        return Bounds.exact(low)
    high = low if is_exact else initial.high.scatter_add(-1, selected, stored.high)
    magnitude = _magnitude(initial).scatter_add(-1, selected, _magnitude(stored))
    nan = _maybe_nan(initial, selected, stored)
    result = accumulated(low, high, magnitude, selected.shape[-1] + 1, nan)
    return result if is_exact else with_nan_unknown(result)


def _magnitude(values: Bounds) -> torch.Tensor:
    return torch.maximum(values.low.abs(), values.high.abs())


def _maybe_nan(initial: Bounds, selected: torch.Tensor, stored: Bounds) -> torch.Tensor | None:
    if initial.maybe_nan is None and stored.maybe_nan is None:
        return None
    masks = [
        torch.zeros(b.shape, dtype=torch.int8)
        if b.maybe_nan is None
        else b.maybe_nan.to(torch.int8)
        for b in (initial, stored)
    ]
    return masks[0].scatter_reduce(-1, selected, masks[1], "amax").bool()

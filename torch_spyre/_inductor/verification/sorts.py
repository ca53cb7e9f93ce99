"""Bounds of sorts: the first elements of rows in their order, and their indices."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table.sort import INDICES
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre.errors import NoReferenceError


@dataclass(frozen=True)
class SortedRows:
    """The results of a sort whose operands have the dims of the iteration space."""

    spec: OpSpec
    roles: LoopRoles
    grid: Grid

    def compute(self, operands: Sequence[Bounds]) -> Bounds:
        """Return the bounds of the elements, or the indices, as a tensor along the column.

        The k-th element of a row is between the k-th of the lower and the k-th of the upper bounds.
        """
        keys, *indices = operands
        if bool(keys.maybe_nan is not None and keys.maybe_nan.any()):
            raise NoReferenceError("a sort of elements that may be NaN")
        positions = self._positions() if not indices else _exact(indices[0])
        low, order = self._sorted(keys.low, positions)
        if self.spec.op == INDICES:
            _exact(keys)
            return Bounds.exact(order)
        if keys.is_exact:
            return Bounds.exact(low)
        return Bounds(low, self._sorted(keys.high, positions)[0])

    def _positions(self) -> torch.Tensor:
        return self.grid.evaluate(self.roles.index("sorted", self.spec.sizes))

    def _sorted(
        self, keys: torch.Tensor, indices: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the first keys and indices, with the dims of the iteration space."""
        sorted_dims, column = (
            [self.grid.dims[symbol] for symbol in self.roles.symbols(role, self.spec.sizes)]
            for role in ("sorted", "column")
        )
        shape = [1 if dim in column else size for dim, size in enumerate(self.grid.shape)]
        remaining = [dim for dim in range(len(shape)) if dim not in (*sorted_dims, *column)]
        order = [*remaining, *column, *sorted_dims]
        rows_shape = [*(shape[dim] for dim in remaining), -1]
        keys, indices = (
            tensor.expand(shape).permute(order).reshape(rows_shape) for tensor in (keys, indices)
        )
        by_index = indices.argsort(dim=-1, stable=True)
        keys, indices = keys.gather(-1, by_index), indices.gather(-1, by_index)
        descending = bool(self.spec.constants["descending"])
        keys, by_key = keys.sort(dim=-1, stable=True, descending=descending)
        kept = prod(self.grid.shape[dim] for dim in column)
        sizes = [
            *(shape[dim] for dim in remaining),
            *(self.grid.shape[dim] for dim in column),
            *(1 for _ in sorted_dims),
        ]
        inverse = [order.index(dim) for dim in range(len(order))]
        first_keys, first_indices = (
            tensor[..., :kept].reshape(sizes).permute(inverse)
            for tensor in (keys, indices.gather(-1, by_key))
        )
        return first_keys, first_indices


def _exact(operand: Bounds) -> torch.Tensor:
    if not bool(operand.is_point.all()):
        raise NoReferenceError("the order of elements that are known within bounds only")
    return operand.low

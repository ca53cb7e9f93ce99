"""The dims of a tensor that tensors of indices select elements of, as one dim of three."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch._inductor import ir
from torch._inductor.lowering import add, expand, permute, view
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.indexed import gather_in_scratchpad
from torch_spyre._inductor.lowerings.indexed_store import num_elements
from torch_spyre._inductor.lowerings.memory import realized

Indices = Sequence[ir.TensorBox | None]


@dataclass(frozen=True)
class IndexedDims:
    """The indices of each dim of a tensor, of the same size and not negative."""

    indices: Indices
    indexed: Sequence[int]

    def index(self, dim: int) -> ir.TensorBox:
        """Return the indices of an indexed dim."""
        index = self.indices[dim]
        assert index is not None
        return index

    @property
    def index_size(self) -> list[int]:
        return [concrete(length) for length in self.index(self.indexed[0]).get_size()]

    @property
    def first(self) -> int:
        """The first dim of the indices in the result: 0 if the indexed dims are not adjacent."""
        is_adjacent = list(self.indexed) == list(range(self.indexed[0], self.indexed[-1] + 1))
        return self.indexed[0] if is_adjacent else 0

    def order(self, rank: int) -> list[int]:
        """Return the dims of a tensor with the indexed dims where the result has the indices."""
        unindexed = [dim for dim in range(rank) if dim not in self.indexed]
        return [*unindexed[: self.first], *self.indexed, *unindexed[self.first :]]

    def ordered(self, x: ir.TensorBox) -> ir.TensorBox:
        """Return a tensor with its dims in this order."""
        result: ir.TensorBox = permute(x, self.order(len(x.get_size())))
        return result

    def table(self, x: ir.TensorBox) -> ir.TensorBox:
        """Return a tensor with three dims, of which the second are the indexed dims."""
        ordered = self.ordered(x)
        size = [concrete(length) for length in ordered.get_size()]
        result: ir.TensorBox = view(
            ordered, [*merged(size, self.first, self.first + len(self.indexed))]
        )
        return result

    def rows(self, values: ir.TensorBox) -> ir.TensorBox:
        """Return values, whose dims include those of the indices, with three dims."""
        size = [concrete(length) for length in values.get_size()]
        end = self.first + len(self.index_size)
        result: ir.TensorBox = view(values, [*merged(size, self.first, end)])
        return result

    def flat_index(self, x: ir.TensorBox) -> ir.TensorBox:
        """Return indices into the indexed dims of a tensor as one dim, a vector.

        Those of several dims are looked up in tables of their multiples, which checks their bounds.
        """
        vectors = [view(self.index(dim), [num_elements(self.index(dim))]) for dim in self.indexed]
        if len(vectors) == 1:
            return vectors[0]
        sizes = [concrete(x.get_size()[dim]) for dim in self.indexed]
        total = None
        for position, (vector, size) in enumerate(zip(vectors, sizes, strict=True)):
            table = multiples(size, math.prod(sizes[position + 1 :]), x)
            part = gather_in_scratchpad(table, 0, vector)
            total = part if total is None else add(total, part)
        assert total is not None
        return realized(total)


def expanded(index: ir.TensorBox, shape: Sequence[int]) -> ir.TensorBox:
    """Return a vector of indices as the middle one of three dims."""
    result: ir.TensorBox = expand(view(index, [1, shape[1], 1]), list(shape))
    return result


def merged(size: Sequence[int], begin: int, end: int) -> tuple[int, int, int]:
    """Return the sizes of three dims, which end at `begin`, at `end`, and with the last dim."""
    return math.prod(size[:begin]), math.prod(size[begin:end]), math.prod(size[end:])


def multiples(count: int, step: int, like: ir.TensorBox) -> ir.TensorBox:
    """Return the first multiples of a step, from 0 on, on the device of a tensor."""
    return realized(
        ir.Pointwise.create(
            device=like.get_device(),
            dtype=torch.int32,
            inner_fn=lambda point: ops.index_expr(step * point[0], torch.int32),
            ranges=[count],
        )
    )

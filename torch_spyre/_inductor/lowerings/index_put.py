"""Lowerings of `index_put`.

The whole tensor passes through the scratchpads, where values are stored or added, unless it is
changed in place and much larger than the values: then only the rows at the indices are accessed.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import inductor_prims, ir
from torch._inductor.lowering import (
    add,
    check_and_broadcast_indices,
    expand,
    fallback_handler,
    index_impl,
    index_output_size_and_inner_fn,
    permute,
    to_dtype,
    view,
    where,
)

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.gather import indexable, with_index_checked, wrapped_index
from torch_spyre._inductor.lowerings.indexed import (
    filled,
    gather_in_scratchpad,
    num_passes,
    scatter_in_scratchpad,
)
from torch_spyre._inductor.lowerings.indexed_dims import (
    IndexedDims,
    Indices,
    expanded,
    multiples,
)
from torch_spyre._inductor.lowerings.indexed_store import (
    as_bool,
    last_along,
    num_elements,
    store_at,
)
from torch_spyre._inductor.lowerings.memory import realized, realized_copy, store_into
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre.dtypes import MASK_DTYPES

aten = torch.ops.aten
# A tensor of this many times the bytes of the values is not moved as a whole.
_LARGE = 4


@register_lowering(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool = False
) -> ir.TensorBox:
    """Store in the scratchpad if that does not repeat too many loads of the values."""
    if _has_mask(indices) or _selects_nothing(x, indices):
        return put(realized_copy(x), indices, values, accumulate)
    entries = _Put.of(x, indices, values)
    if not entries.repeats_loads(x):
        return entries.moved_whole(x, accumulate)
    return entries.put(realized_copy(x), accumulate)


@register_lowering(aten.index_put_.default, inductor_prims._unsafe_index_put_)
def _index_put_in_place(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool = False
) -> ir.TensorBox:
    """Store into the memory of x itself, unless it is part of a concatenation."""
    x.realize()
    return put(realized_copy(x) if _is_concatenated(x) else x, indices, values, accumulate)


def _is_concatenated(x: ir.TensorBox) -> bool:
    """Return whether a tensor is part of a concatenation, which must not change with it."""
    data = x.data
    while isinstance(data, ir.MutableBox | ir.BaseView):
        data = data.data
    return isinstance(data.get_layout(), ir.NonOwningLayout)


def put(x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool) -> ir.TensorBox:
    """Store values into x at indices, or add them; return x."""
    if _has_mask(indices):
        values = to_dtype(values, x.get_dtype())
        store_into(_put_by_mask(x, indices, values, accumulate), x)
        return x
    if _selects_nothing(x, indices):
        return x
    return _Put.of(x, indices, values).put(x, accumulate)


def _has_mask(indices: Indices) -> bool:
    return any(index is not None and index.get_dtype() in MASK_DTYPES for index in indices)


def _selects_nothing(x: ir.TensorBox, indices: Indices) -> bool:
    tensors = [index for index in indices if index is not None]
    return not tensors or any(num_elements(tensor) == 0 for tensor in (*tensors, x))


@dataclass(frozen=True)
class _Put:
    """The values of an `index_put`, broadcast, and the dims that are indexed."""

    dims: IndexedDims
    values: ir.TensorBox
    position: Any

    @staticmethod
    def of(x: ir.TensorBox, indices: Indices, values: ir.TensorBox) -> "_Put":
        broadcast, indexed = check_and_broadcast_indices(indices, x.get_device())
        stored = [
            None if index is None else realized(wrapped_index(index, x.get_size()[dim]))
            for dim, index in enumerate(broadcast)
        ]
        dims = IndexedDims(stored, indexed)
        size, position = index_output_size_and_inner_fn(
            x.get_size(),
            stored,
            indexed,
            list(broadcast[indexed[0]].get_size()),
            [None if index is None else index.make_loader() for index in stored],
            [x.get_size()[dim] for dim in range(len(stored))],
            None,
            check=False,
        )
        return _Put(dims, expand(to_dtype(values, x.get_dtype()), size), position)

    def put(self, x: ir.TensorBox, accumulate: bool) -> ir.TensorBox:
        """Store the values into the memory of x, or add them; return x."""
        if not accumulate:
            return self.into(x)
        is_large = num_elements(x) > _LARGE * num_elements(self.values)
        if (is_large or self.repeats_loads(x)) and x.get_dtype() is not torch.bool:
            return self.into(x, self.sums_of_duplicates(x))
        store_into(self.moved_whole(x, accumulate=True), x)
        return x

    def repeats_loads(self, x: ir.TensorBox) -> bool:
        """Return whether moving the whole tensor loads the values more often than it pays."""
        return num_passes(x) * num_elements(self.values) > 2 * num_elements(x)

    def into(self, x: ir.TensorBox, values: ir.TensorBox | None = None) -> ir.TensorBox:
        """Store the values, or others in their place, into the memory of x; return x."""
        values = self.values if values is None else values
        indexed, first = self.dims.indexed, self.dims.first
        for dim in indexed:
            values = with_index_checked(values, x.get_size()[dim], self.dims.index(dim))
        if all(concrete(x.get_size()[dim]) == 1 for dim in indexed):
            values = last_along(values, range(first, first + len(self.dims.index_size)))
        store_at(x, values, self.position)
        return x

    def moved_whole(self, x: ir.TensorBox, accumulate: bool) -> ir.TensorBox:
        """Return x with the values stored, or added, in the scratchpad."""
        if accumulate and x.get_dtype() is torch.bool:
            counts = replace(self, values=to_dtype(self.values, torch.int32))
            return as_bool(counts.moved_whole(to_dtype(x, torch.int32), accumulate))
        reduce = "sum" if accumulate else "set"
        result = self._scattered(self.dims.table(x), self.dims.flat_index(x), reduce)
        order = self.dims.order(len(x.get_size()))
        size = [x.get_size()[dim] for dim in order]
        moved: ir.TensorBox = permute(
            view(result, size), [order.index(d) for d in range(len(order))]
        )
        return moved

    def sums_of_duplicates(self, x: ir.TensorBox) -> ir.TensorBox:
        """Return, for the last value of each index, the sum of x and all values with this index."""
        index = self.dims.flat_index(x)
        total = math.prod(concrete(x.get_size()[dim]) for dim in self.dims.indexed)
        order = multiples(num_elements(index), 1, x)
        last = scatter_in_scratchpad(filled(0, [total], torch.int32, x), 0, index, order, "set")
        last = gather_in_scratchpad(last, 0, index)
        indexed = indexable(x, self.dims.indexed)
        current = index_impl(indexed, self.dims.indices, check=False)
        result = self._scattered(self.dims.rows(current), last, "sum")
        sums: ir.TensorBox = view(result, current.get_size())
        return sums

    def _scattered(self, table: ir.TensorBox, index: ir.TensorBox, reduce: str) -> ir.TensorBox:
        """Return a table of three dims with the values scattered to indices of the middle one."""
        values = self.dims.rows(self.values)
        shape = [concrete(length) for length in values.get_size()]
        return scatter_in_scratchpad(table, 1, expanded(index, shape), values, reduce)


def _put_by_mask(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool
) -> ir.TensorBox:
    """Return x with values where a mask is True: a `where` if all of them get the same value."""
    (first, *further) = [dim for dim, index in enumerate(indices) if index is not None]
    mask = indices[first]
    assert mask is not None
    if mask.get_dtype() is not torch.bool or further:
        return _fallback(x, indices, values, accumulate)
    rank, masked_dims = len(x.get_size()), len(mask.get_size())
    later_dims = rank - first - masked_dims
    size = [concrete(length) for length in values.get_size()]
    # One dim of the values ranges over the selected elements.
    size = [1] * (first + 1 + later_dims - len(size)) + size
    if size[first] != 1:
        return _fallback(x, indices, values, accumulate)
    values = view(values, [*size[:first], *[1] * masked_dims, *size[first + 1 :]])
    values = expand(values, x.get_size())
    mask = view(mask, [*[1] * first, *mask.get_size(), *[1] * later_dims])
    if accumulate:
        values = add(x, values)
    result: ir.TensorBox = where(expand(mask, x.get_size()), values, x)
    return result


def _fallback(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool
) -> ir.TensorBox:
    """Return the result of the ATen kernel."""
    fallback = fallback_handler(aten.index_put.default, add_to_fallback_set=False)
    result: ir.TensorBox = fallback(x, list(indices), values, accumulate)
    return result

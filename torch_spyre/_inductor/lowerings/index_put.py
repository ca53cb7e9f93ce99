"""Lowerings of `index_put`.

The whole tensor passes through the scratchpads, where values are stored or added, unless it is
changed in place and much larger than the values: then only the rows at the indices are accessed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.gather import indexable, with_index_checked, wrapped_index
from torch_spyre._inductor.lowerings.indexed import (
    filled,
    gather_in_scratchpad,
    num_passes,
    scatter_in_scratchpad,
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
Indices = Sequence[ir.TensorBox | None]


@register_lowering(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool = False
) -> ir.TensorBox:
    """Store into the scratchpad's copy of x if that does not repeat too many loads of the values."""
    if _has_mask(indices) or _selects_nothing(x, indices):
        return put(realized_copy(x), indices, values, accumulate)
    entries = _Put.of(x, indices, values)
    is_moved_whole = num_passes(x) * num_elements(entries.values) <= 2 * num_elements(x)
    if accumulate or is_moved_whole:
        return entries.moved_whole(x, accumulate)
    return entries.into(realized_copy(x))


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
    entries = _Put.of(x, indices, values)
    if not accumulate:
        return entries.into(x)
    is_large = num_elements(x) > _LARGE * num_elements(entries.values)
    if is_large and x.get_dtype() is not torch.bool:
        return entries.into(x, entries.sums_of_duplicates(x))
    store_into(entries.moved_whole(x, accumulate=True), x)
    return x


def _has_mask(indices: Indices) -> bool:
    return any(index is not None and index.get_dtype() in MASK_DTYPES for index in indices)


def _selects_nothing(x: ir.TensorBox, indices: Indices) -> bool:
    tensors = [index for index in indices if index is not None]
    return not tensors or any(num_elements(tensor) == 0 for tensor in (*tensors, x))


@dataclass(frozen=True)
class _Put:
    """The values of an `index_put`, broadcast, and the indices of each dim, which are not negative.

    The dims of the indices are `rank` dims of the values, from `first` on.
    """

    indices: Indices
    indexed: Sequence[int]
    values: ir.TensorBox
    first: int
    rank: int
    position: Any

    @staticmethod
    def of(x: ir.TensorBox, indices: Indices, values: ir.TensorBox) -> "_Put":
        broadcast, indexed = check_and_broadcast_indices(indices, x.get_device())
        stored = [
            None if index is None else realized(wrapped_index(index, x.get_size()[dim]))
            for dim, index in enumerate(broadcast)
        ]
        index_size = list(broadcast[indexed[0]].get_size())
        size, position = index_output_size_and_inner_fn(
            x.get_size(),
            stored,
            indexed,
            index_size,
            [None if index is None else index.make_loader() for index in stored],
            [x.get_size()[dim] for dim in range(len(stored))],
            None,
            check=False,
        )
        is_adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
        first = indexed[0] if is_adjacent else 0
        values = expand(to_dtype(values, x.get_dtype()), size)
        return _Put(stored, indexed, values, first, len(index_size), position)

    def into(self, x: ir.TensorBox, values: ir.TensorBox | None = None) -> ir.TensorBox:
        """Store the values, or others in their place, into the memory of x; return x."""
        values = self.values if values is None else values
        for dim in self.indexed:
            values = with_index_checked(values, x.get_size()[dim], self._index(dim))
        if all(concrete(x.get_size()[dim]) == 1 for dim in self.indexed):
            values = last_along(values, range(self.first, self.first + self.rank))
        store_at(x, values, self.position)
        return x

    def moved_whole(self, x: ir.TensorBox, accumulate: bool) -> ir.TensorBox:
        """Return x with the values stored, or added, in the scratchpad."""
        if accumulate and x.get_dtype() is torch.bool:
            counts = _Put(
                self.indices,
                self.indexed,
                to_dtype(self.values, torch.int32),
                self.first,
                self.rank,
                self.position,
            )
            return as_bool(counts.moved_whole(to_dtype(x, torch.int32), accumulate))
        rank = len(x.get_size())
        # The values have the dims of the indices first if these are not of adjacent dims.
        before = [dim for dim in range(rank) if dim not in self.indexed][: self.first]
        after = [dim for dim in range(rank) if dim not in (*before, *self.indexed)]
        order = [*before, *self.indexed, *after]
        ordered = permute(x, order)
        size = [concrete(length) for length in ordered.get_size()]
        end = len(before) + len(self.indexed)
        table = view(ordered, [*_merged(size, len(before), end)])
        index = self._flat_index([size[d] for d in range(len(before), end)])
        result = self._scattered(table, index, "sum" if accumulate else "set")
        inverse = [order.index(dim) for dim in range(rank)]
        moved: ir.TensorBox = permute(view(result, size), inverse)
        return moved

    def sums_of_duplicates(self, x: ir.TensorBox) -> ir.TensorBox:
        """Return, for the last value of each index, the sum of x and all values with this index."""
        index = self._flat_index([concrete(x.get_size()[dim]) for dim in self.indexed])
        count = num_elements(index)
        total = math.prod(concrete(x.get_size()[dim]) for dim in self.indexed)
        order = _multiples(count, 1, x)
        last = scatter_in_scratchpad(filled(0, [total], torch.int32, x), 0, index, order, "set")
        last = gather_in_scratchpad(last, 0, index)
        current = index_impl(indexable(x, self.indexed), self.indices, check=False)
        size = [concrete(length) for length in current.get_size()]
        rows = view(current, [*_merged(size, self.first, self.first + self.rank)])
        result: ir.TensorBox = view(self._scattered(rows, last, "sum"), size)
        return result

    def _scattered(
        self, table: ir.TensorBox, index: ir.TensorBox, reduce: str
    ) -> ir.TensorBox:
        """Return a table of three dims with the values scattered to indices of the middle one."""
        size = [concrete(length) for length in self.values.get_size()]
        shape = [*_merged(size, self.first, self.first + self.rank)]
        index = expand(view(index, [1, shape[1], 1]), shape)
        return scatter_in_scratchpad(table, 1, index, view(self.values, shape), reduce)

    def _index(self, dim: int) -> ir.TensorBox:
        index = self.indices[dim]
        assert index is not None
        return index

    def _flat_index(self, sizes: Sequence[int]) -> ir.TensorBox:
        """Return indices into the indexed dims as one dim, a vector.

        Those of several dims are looked up in tables of their multiples, which checks their bounds.
        """
        vectors = [view(self._index(dim), [num_elements(self._index(dim))]) for dim in self.indexed]
        if len(vectors) == 1:
            return vectors[0]
        total = None
        for position, (vector, size) in enumerate(zip(vectors, sizes, strict=True)):
            step = math.prod(sizes[position + 1 :])
            part = gather_in_scratchpad(_multiples(size, step, self.values), 0, vector)
            total = part if total is None else add(total, part)
        return realized(total)


def _merged(size: Sequence[int], begin: int, end: int) -> tuple[int, int, int]:
    """Return sizes of three dims: those before `begin`, those before `end`, and the others."""
    return math.prod(size[:begin]), math.prod(size[begin:end]), math.prod(size[end:])


def _multiples(count: int, step: int, like: ir.TensorBox) -> ir.TensorBox:
    """Return the first multiples of a step, from 0 on, on the device of a tensor."""
    return realized(
        ir.Pointwise.create(
            device=like.get_device(),
            dtype=torch.int32,
            inner_fn=lambda point: ops.index_expr(step * point[0], torch.int32),
            ranges=[count],
        )
    )


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


def _sum_duplicates(
    values: ir.TensorBox,
    indices: Sequence[Any],
    x: ir.TensorBox,
    indexed: Sequence[int],
    first: int,
) -> ir.TensorBox:
    """Return, for each value, the sum of all with its indices, whose dims begin at `first`."""
    rank = len(indices[0].get_size())
    elements = num_elements(indices[0])
    size = [concrete(length) for length in values.get_size()]
    order = [*range(first, first + rank), *range(first), *range(first + rank, len(size))]
    rows = view(permute(values, order), [elements, -1 if elements else 0])
    positions = _flat_indices(indices, [concrete(x.get_size()[dim]) for dim in indexed])
    sums = _sum_equal_rows(realized(positions), rows)
    inverse = [order.index(dim) for dim in range(len(order))]
    result: ir.TensorBox = permute(view(sums, [size[dim] for dim in order]), inverse)
    return result


def _flat_indices(indices: Sequence[ir.TensorBox], sizes: Sequence[int]) -> ir.TensorBox:
    """Return the indices of several dims as a vector of indices into the flattened dims."""
    total = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        total = add(mul(total, size), index)
    return view(total, [num_elements(total)])


def _sum_equal_rows(positions: ir.TensorBox, rows: ir.TensorBox) -> ir.TensorBox:
    """Return, for each row, the sum of all rows with an equal position."""
    load, load_rows = positions.make_loader(), rows.make_loader()
    size, dtype = rows.get_size(), rows.get_dtype()
    if dtype in FLOAT_DTYPES:
        is_equal = ir.Pointwise.create(
            device=rows.get_device(),
            dtype=dtype,
            inner_fn=lambda point: ops.to_dtype(ops.eq(load(point[:1]), load(point[1:])), dtype),
            ranges=[size[0], size[0]],
        )
        return _mask_matmul(is_equal, rows)
    return reduction(
        rows,
        size,
        [size[0]],
        "sum",
        lambda point, reduced: ops.where(
            ops.eq(load(point[:1]), load(reduced)),
            load_rows([reduced[0], point[1]]),
            ops.constant(0, dtype),
        ),
    )


def _mask_matmul(mask: ir.TensorBox, rows: ir.TensorBox) -> ir.TensorBox:
    """Return the matmul of a mask of zeros and ones with rows.

    Infinities and NaNs, whose product with 0 is NaN, are counted by separate matmuls.
    """
    mask.realize()
    rows.realize()
    size, dtype, load = rows.get_size(), rows.get_dtype(), rows.make_loader()

    def pointwise(inner: Callable[..., Any]) -> ir.TensorBox:
        return ir.Pointwise.create(
            device=rows.get_device(), dtype=dtype, inner_fn=inner, ranges=size
        )

    def constant(value: float) -> Any:
        return ops.constant(value, dtype)

    def finite(point: Sequence[Any]) -> Any:
        value = load(point)
        return ops.where(ops.logical_or(ops.isnan(value), ops.isinf(value)), constant(0.0), value)

    def is_nan_or_equal(infinity: float) -> Callable[..., Any]:
        def inner(point: Sequence[Any]) -> Any:
            value = load(point)
            is_match = ops.logical_or(ops.isnan(value), ops.eq(value, constant(infinity)))
            return ops.to_dtype(is_match, dtype)

        return inner

    operands = (finite, is_nan_or_equal(math.inf), is_nan_or_equal(-math.inf))
    sums = [matmul(mask, pointwise(operand), size, size[0]) for operand in operands]
    for tensor in sums:
        tensor.realize()
    load_total, load_infs, load_negative_infs = (tensor.make_loader() for tensor in sums)

    def combine(point: Sequence[Any]) -> Any:
        has_inf, has_negative_inf = (
            ops.gt(load_count(point), constant(0.0))
            for load_count in (load_infs, load_negative_infs)
        )
        without_inf = ops.where(has_negative_inf, constant(-math.inf), load_total(point))
        with_inf = ops.where(has_negative_inf, constant(math.nan), constant(math.inf))
        return ops.where(has_inf, with_inf, without_inf)

    return pointwise(combine)

"""Lowerings of `index_put`.

To accumulate elements with equal indices, each is replaced by the sum of all of them. Then it does
not matter which of them is stored last.
"""

import math
from collections.abc import Callable, Sequence
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
    mul,
    permute,
    slice_,
    to_dtype,
    view,
    where,
)
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.gather import indexable, with_index_checked, wrapped_index
from torch_spyre._inductor.lowerings.indexed_store import (
    as_bool,
    last_along,
    num_elements,
    reduction,
    store_at,
)
from torch_spyre._inductor.lowerings.matmul import matmul
from torch_spyre._inductor.lowerings.memory import realized, realized_copy, store_into
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre.dtypes import FLOAT_DTYPES, MASK_DTYPES

aten = torch.ops.aten
# Elements that are accumulated at once: the indices of all pairs of them are compared.
_MAX_ACCUMULATED = 1024
Indices = Sequence[ir.TensorBox | None]


@register_lowering(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool = False
) -> ir.TensorBox:
    return put(realized_copy(x), indices, values, accumulate)


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
    values = to_dtype(values, x.get_dtype())
    tensors = [index for index in indices if index is not None]
    if any(index.get_dtype() in MASK_DTYPES for index in tensors):
        store_into(_put_by_mask(x, indices, values, accumulate), x)
        return x
    if not tensors or any(num_elements(tensor) == 0 for tensor in (*tensors, x)):
        return x
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
    values = expand(values, size)
    for dim in indexed:
        values = with_index_checked(values, x.get_size()[dim], stored[dim])
    if accumulate and x.get_dtype() is torch.bool:
        counts = put(realized_copy(to_dtype(x, torch.int32)), indices, values, True)
        store_into(as_bool(counts), x)
        return x
    is_adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
    first = indexed[0] if is_adjacent else 0
    if accumulate and math.prod(map(concrete, index_size)) > _MAX_ACCUMULATED:
        return _accumulate_chunks(x, stored, values, first, len(index_size))
    if accumulate:
        values = _sum_duplicates(values, [stored[dim] for dim in indexed], x, indexed, first)
        values = add(index_impl(indexable(x, indexed), stored, check=False), values)
    if all(concrete(x.get_size()[dim]) == 1 for dim in indexed):
        values = last_along(values, range(first, first + len(index_size)))
    store_at(x, values, position)
    return x


def _accumulate_chunks(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, first: int, rank: int
) -> ir.TensorBox:
    """Add values, whose `rank` index dims begin at `first`, in chunks of `_MAX_ACCUMULATED`."""
    size = [concrete(length) for length in values.get_size()]
    elements = math.prod(size[first : first + rank])
    values = view(values, [*size[:first], elements, *size[first + rank :]])
    rows = [None if index is None else realized(view(index, [elements])) for index in indices]
    for begin in range(0, elements, _MAX_ACCUMULATED):
        end = min(begin + _MAX_ACCUMULATED, elements)
        chunk = [None if index is None else slice_(index, 0, begin, end) for index in rows]
        put(x, chunk, slice_(values, first, begin, end), True)
    return x


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

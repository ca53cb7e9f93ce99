"""Lowerings of writes through indices: `index_put`, `scatter` and what is made of them.

Elements are stored where their indices say, and nothing else is touched. Where several elements go
to one place and are to be added, each is replaced by the sum of all that go there with it: then it
does not matter which is stored last.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import inductor_prims, ir
from torch._inductor.lowering import (
    add,
    check_and_broadcast_indices,
    div,
    expand,
    fallback_handler,
    floordiv,
    full_like,
    index_impl,
    index_output_size_and_inner_fn,
    lowerings,
    mul,
    permute,
    slice_,
    to_dtype,
    view,
    where,
)
from torch._inductor.virtualized import V, ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.folds import product
from torch_spyre._inductor.lowerings.gathers import readable, with_index_checked, wrapped_index
from torch_spyre._inductor.lowerings.memory import copied, in_memory, write_into
from torch_spyre._inductor.lowerings.registry import lowers
from torch_spyre.dtypes import FLOAT_DTYPES, MASK_DTYPES

aten = torch.ops.aten
_FOLDS = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}
# Values that are added where indices say are compared each with each: so many at a time.
_MOST_AT_ONCE = 1024
# The same of single elements along a dim, which take no product of matrices.
_MOST_FOLDED = 16_384
Indices = Sequence[ir.TensorBox | None]


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool = False
) -> ir.TensorBox:
    return _put(copied(x), indices, values, accumulate)


@lowers(aten.index_put_.default, inductor_prims._unsafe_index_put_)
def _index_put_in_place(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool = False
) -> ir.TensorBox:
    """Of a tensor that nothing reads afterwards."""
    x.realize()
    return _put(copied(x) if _is_joined(x) else x, indices, values, accumulate)


def _is_joined(x: ir.TensorBox) -> bool:
    """Is it part of a larger tensor, which must not change with it?"""
    data = x.data
    while isinstance(data, ir.MutableBox | ir.BaseView):
        data = data.data
    return isinstance(data.get_layout(), ir.NonOwningLayout)


def _put(x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool) -> ir.TensorBox:
    values = to_dtype(values, x.get_dtype())
    tensors = [index for index in indices if index is not None]
    if any(index.get_dtype() in MASK_DTYPES for index in tensors):
        changed = _put_by_flags(x, indices, values, accumulate)
        write_into(changed, x)
        return x
    if not tensors or any(count(each) == 0 for each in (*tensors, x)):
        return x
    found, indexed = check_and_broadcast_indices(indices, x.get_device())
    stored = [
        None if index is None else in_memory(wrapped_index(index, x.get_size()[dim]))
        for dim, index in enumerate(found)
    ]
    index_size = list(found[indexed[0]].get_size())
    size, place = index_output_size_and_inner_fn(
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
        counted = _put(copied(to_dtype(x, torch.int32)), indices, values, True)
        write_into(_as_flags(counted), x)
        return x
    adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
    first = indexed[0] if adjacent else 0
    if accumulate and math.prod(map(concrete, index_size)) > _MOST_AT_ONCE:
        return _put_in_parts(x, stored, values, first, len(index_size))
    if accumulate:
        values = _with_all_of_a_place(values, [stored[dim] for dim in indexed], x, indexed, first)
        values = add(index_impl(readable(x, indexed), stored, check=False), values)
    if all(concrete(x.get_size()[dim]) == 1 for dim in indexed):
        values = _last_along(values, range(first, first + len(index_size)))
    _store(x, values, place)
    return x


def _put_in_parts(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, first: int, rank: int
) -> ir.TensorBox:
    """Adds values, whose index dims are the `rank` from `first` on, some after the others."""
    size = [concrete(each) for each in values.get_size()]
    elements = math.prod(size[first : first + rank])
    values = view(values, [*size[:first], elements, *size[first + rank :]])
    rows = [None if index is None else in_memory(view(index, [elements])) for index in indices]
    for begin in range(0, elements, _MOST_AT_ONCE):
        end = min(begin + _MOST_AT_ONCE, elements)
        part = [None if index is None else slice_(index, 0, begin, end) for index in rows]
        _put(x, part, slice_(values, first, begin, end), True)
    return x


def _as_flags(counted: ir.TensorBox) -> ir.TensorBox:
    """Flags are accumulated as numbers: what is not zero was set."""
    found: ir.TensorBox = lowerings[aten.ne.Scalar](counted, 0)
    return found


def _put_by_flags(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool
) -> ir.TensorBox:
    """Where the same value goes to all that are flagged, it is a choice."""
    (position, *others) = [dim for dim, index in enumerate(indices) if index is not None]
    mask = indices[position]
    assert mask is not None
    if mask.get_dtype() is not torch.bool or others:
        return _elsewhere(x, indices, values, accumulate)
    rank, flagged = len(x.get_size()), len(mask.get_size())
    behind = rank - position - flagged
    size = [concrete(each) for each in values.get_size()]
    # One dim of the values runs over what is flagged.
    size = [1] * (position + 1 + behind - len(size)) + size
    if size[position] != 1:
        return _elsewhere(x, indices, values, accumulate)
    values = view(values, [*size[:position], *[1] * flagged, *size[position + 1 :]])
    values = expand(values, x.get_size())
    mask = view(mask, [*[1] * position, *mask.get_size(), *[1] * behind])
    if accumulate:
        values = add(x, values)
    result: ir.TensorBox = where(expand(mask, x.get_size()), values, x)
    return result


def _elsewhere(
    x: ir.TensorBox, indices: Indices, values: ir.TensorBox, accumulate: bool
) -> ir.TensorBox:
    fallback = fallback_handler(aten.index_put.default, add_to_fallback_set=False)
    result: ir.TensorBox = fallback(x, list(indices), values, accumulate)
    return result


def _with_all_of_a_place(
    values: ir.TensorBox,
    indices: Sequence[Any],
    x: ir.TensorBox,
    indexed: Sequence[int],
    first: int,
) -> ir.TensorBox:
    """For each value the sum of all that have its indices, whose dims begin at `first`."""
    rank = len(indices[0].get_size())
    elements = count(indices[0])
    size = [concrete(each) for each in values.get_size()]
    order = [*range(first, first + rank), *range(first), *range(first + rank, len(size))]
    rows = view(permute(values, order), [elements, -1 if elements else 0])
    places = _places(indices, [concrete(x.get_size()[dim]) for dim in indexed])
    summed = _rows_alike(in_memory(places), rows)
    back = [order.index(dim) for dim in range(len(order))]
    result: ir.TensorBox = permute(view(summed, [size[dim] for dim in order]), back)
    return result


def _places(indices: Sequence[ir.TensorBox], sizes: Sequence[int]) -> ir.TensorBox:
    """The indices of several dims as one number, in a row."""
    total = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        total = add(mul(total, size), index)
    return view(total, [count(total)])


def _rows_alike(places: ir.TensorBox, rows: ir.TensorBox) -> ir.TensorBox:
    """For each row the sum of all rows with its place."""
    load, load_rows = places.make_loader(), rows.make_loader()
    size, dtype = rows.get_size(), rows.get_dtype()
    if dtype in FLOAT_DTYPES:
        alike = ir.Pointwise.create(
            device=rows.get_device(),
            dtype=dtype,
            inner_fn=lambda point: ops.to_dtype(ops.eq(load(point[:1]), load(point[1:])), dtype),
            ranges=[size[0], size[0]],
        )
        return _product_with_flags(alike, rows)
    return _folded(
        rows,
        size,
        [size[0]],
        "sum",
        lambda point, along: ops.where(
            ops.eq(load(point[:1]), load(along)),
            load_rows([along[0], point[1]]),
            ops.constant(0, dtype),
        ),
    )


def _product_with_flags(flags: ir.TensorBox, rows: ir.TensorBox) -> ir.TensorBox:
    """Sums of the flagged rows. What is not finite is summed apart: times 0 it would not be 0."""
    flags.realize()
    rows.realize()
    size, dtype, load = rows.get_size(), rows.get_dtype(), rows.make_loader()

    def made(inner: Callable[..., Any]) -> ir.TensorBox:
        return ir.Pointwise.create(
            device=rows.get_device(), dtype=dtype, inner_fn=inner, ranges=size
        )

    def number(value: float) -> Any:
        return ops.constant(value, dtype)

    def finite(point: Sequence[Any]) -> Any:
        value = load(point)
        return ops.where(ops.logical_or(ops.isnan(value), ops.isinf(value)), number(0.0), value)

    def is_or_nan(infinity: float) -> Callable[..., Any]:
        def inner(point: Sequence[Any]) -> Any:
            value = load(point)
            found = ops.logical_or(ops.isnan(value), ops.eq(value, number(infinity)))
            return ops.to_dtype(found, dtype)

        return inner

    parts = (finite, is_or_nan(math.inf), is_or_nan(-math.inf))
    summed = [product(flags, made(part), size, size[0]) for part in parts]
    for each in summed:
        each.realize()
    load_total, load_above, load_below = (each.make_loader() for each in summed)

    def together(point: Sequence[Any]) -> Any:
        above, below = (ops.gt(each(point), number(0.0)) for each in (load_above, load_below))
        without_above = ops.where(below, number(-math.inf), load_total(point))
        return ops.where(above, ops.where(below, number(math.nan), number(math.inf)), without_above)

    return made(together)


def _folded(
    like: ir.TensorBox,
    ranges: Sequence[Any],
    along: Sequence[Any],
    kind: str,
    inner: Callable[..., Any],
) -> ir.TensorBox:
    result: ir.TensorBox = ir.Reduction.create(
        device=like.get_device_or_error(),
        dst_dtype=like.get_dtype(),
        src_dtype=like.get_dtype(),
        inner_fn=inner,
        ranges=list(ranges),
        reduction_ranges=list(along),
        reduction_type=kind,  # type: ignore[arg-type]  # one of a table
    )
    result.realize()
    return result


def _last_along(values: ir.TensorBox, dims: Sequence[int]) -> ir.TensorBox:
    """Of values that all go to one place, the one that stays: no loop would tell them apart."""
    values.realize()
    for dim in dims:
        size = concrete(values.get_size()[dim])
        values = slice_(values, dim, size - 1, size)
    return values


def _store(x: ir.TensorBox, values: ir.TensorBox, place: Callable[..., Any]) -> None:
    """Puts values where `place` says. They are in memory: some may be read from x."""
    values.realize()
    # Joined with others, x would become a part of the result, in which places are others.
    x.freeze_layout()
    buffer = ir.ComputedBuffer(
        name=None,
        layout=ir.MutationLayoutSHOULDREMOVE(x),
        data=ir.Scatter(
            device=x.get_device_or_error(),
            dtype=x.get_dtype(),
            inner_fn=values.make_loader(),
            ranges=values.get_size(),
            output_indexer=place,
            scatter_mode=None,
        ),
    )
    buffer.name = V.graph.register_buffer(buffer)
    V.graph.register_operation(buffer)


def iota(length: int, start: int, step: int, like: ir.TensorBox) -> ir.TensorBox:
    return ir.Pointwise.create(
        device=like.get_device(),
        dtype=torch.int32,
        inner_fn=lambda point: ops.index_expr(start + step * point[0], torch.int32),
        ranges=[length],
    )


def count(x: ir.TensorBox) -> int:
    return math.prod(concrete(size) for size in x.get_size())


@lowers(aten.slice_scatter.default)
def _slice_scatter(
    x: ir.TensorBox,
    source: ir.TensorBox,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> ir.TensorBox:
    result = copied(x)
    if step > 1:
        # Elements with others between them are no part of memory that can be written at once.
        size = concrete(x.get_size()[dim])
        first, _, _ = slice(start, end, step).indices(size)
        places = iota(concrete(source.get_size()[dim]), first, step, x)
        return _put(result, [*[None] * (dim % len(x.get_size())), places], source, False)
    part = slice_(result, dim, start or 0, end, step)
    write_into(source, part)
    return result


@lowers(aten.select_scatter.default)
def _select_scatter(x: ir.TensorBox, source: ir.TensorBox, dim: int, index: int) -> ir.TensorBox:
    result = copied(x)
    size = list(x.get_size())
    index %= concrete(size[dim])
    part = slice_(result, dim, index, index + 1)
    size[dim] = 1
    write_into(view(source, size), part)
    return result


@lowers(aten.scatter.src, aten.scatter.value)
def _scatter(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scattered(x, dim, index, src, None, True)


@lowers(aten.scatter_add.default)
def _scatter_add(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scattered(x, dim, index, src, "sum", True)


@lowers(aten.scatter.reduce, aten.scatter.value_reduce)
def _scatter_by_name(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, *, reduce: str
) -> ir.TensorBox:
    return _scattered(x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce], True)


@lowers(aten.scatter_reduce.two)
def _scatter_reduce(
    x: ir.TensorBox,
    dim: int,
    index: ir.TensorBox,
    src: ir.TensorBox,
    reduce: str,
    *,
    include_self: bool = True,
) -> ir.TensorBox:
    return _scattered(x, dim, index, src, reduce, include_self)


def _scattered(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, kind: str | None, with_x: bool
) -> ir.TensorBox:
    shape = x.get_size()
    if kind is not None and x.get_dtype() is torch.bool:
        if isinstance(src, ir.TensorBox):
            src = to_dtype(src, torch.int32)
        return _as_flags(_scattered(to_dtype(x, torch.int32), dim, index, src, kind, with_x))
    if not shape:
        x = view(x, [1])
    result = copied(x)
    if not index.get_size():
        index = view(index, [1])
    if count(index) == 0:
        return result if shape else view(result, [])
    dim %= len(result.get_size())
    if not isinstance(src, ir.TensorBox):
        src = full_like(index, src, dtype=x.get_dtype())
    elif not src.get_size():
        src = view(src, [1])
    index = in_memory(index)
    length = concrete(index.get_size()[dim])
    # A mean needs the number of all, and without what was there the first part is not like others.
    at_once = _MOST_FOLDED if kind in _FOLDS and kind != "mean" and with_x else length
    for begin in range(0, length, at_once):
        end = min(begin + at_once, length)
        part, values = (slice_(each, dim, begin, end) for each in (index, src))
        _scatter_part(result, dim, part, values, kind, with_x)
    return result if shape else view(result, [])


def _scatter_part(
    x: ir.TensorBox,
    dim: int,
    index: ir.TensorBox,
    src: ir.TensorBox,
    kind: str | None,
    with_x: bool,
) -> None:
    """Changes x."""
    load_index, load = index.make_loader(), to_dtype(src, x.get_dtype()).make_loader()
    # What is scattered has the size of the indices, whatever the size of its source.
    values = ir.Pointwise.create(
        device=x.get_device(), dtype=x.get_dtype(), inner_fn=load, ranges=index.get_size()
    )
    extent = x.get_size()[dim]
    values = with_index_checked(values, extent, index)

    def place(point: Sequence[Any]) -> list[Any]:
        found = list(point)
        found[dim] = ops.indirect_indexing(load_index(point), extent, check=False, wrap_neg=False)
        return found

    if kind is not None:
        values = _reduced(x, dim, index, values, kind, with_x)
    if concrete(extent) == 1:
        values = _last_along(values, [dim])
    _store(x, values, place)


def _reduced(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, values: ir.TensorBox, kind: str, with_x: bool
) -> ir.TensorBox:
    """For each value what comes of all that go to its place, and of what is there if wanted."""
    fold = _FOLDS[kind]
    load, load_index = values.make_loader(), index.make_loader()
    dtype, ranges = x.get_dtype(), index.get_size()

    def among(inner: Callable[..., Any], neutral: Any) -> Callable[..., Any]:
        def chosen(point: Sequence[Any], along: Sequence[Any]) -> Any:
            other = [*point[:dim], along[0], *point[dim + 1 :]]
            alike = ops.eq(load_index(point), load_index(other))
            return ops.where(alike, inner(other), ops.constant(neutral, dtype))

        return chosen

    def folded(inner: Callable[..., Any], neutral: Any, kind: str) -> ir.TensorBox:
        return _folded(x, ranges, [ranges[dim]], kind, among(inner, neutral))

    result = folded(load, _neutral(fold, dtype), fold)
    if with_x:
        there = lowerings[aten.gather.default](x, dim, index)
        both = {"sum": aten.add, "prod": aten.mul, "max": aten.maximum, "min": aten.minimum}[fold]
        result = lowerings[both](there, result)
    if kind == "mean":
        members = folded(lambda _: ops.constant(1, dtype), 0, "sum")
        members = add(members, 1) if with_x else members
        divided = div if dtype in FLOAT_DTYPES else floordiv
        result = to_dtype(divided(result, members), dtype)
    return result


def _neutral(fold: str, dtype: torch.dtype) -> float | int:
    """What changes nothing. Integers of 64 bits have 32 on the card."""
    if fold in ("sum", "prod"):
        return 0 if fold == "sum" else 1
    if dtype in FLOAT_DTYPES:
        return -math.inf if fold == "max" else math.inf
    limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    return limits.min if fold == "max" else limits.max

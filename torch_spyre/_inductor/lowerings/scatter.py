"""Lowerings of `scatter`, `scatter_reduce`, `slice_scatter` and `select_scatter`.

To reduce elements with equal indices, each is replaced by the reduction of all of them. Then it
does not matter which of them is stored last.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import (
    add,
    div,
    floordiv,
    full_like,
    lowerings,
    slice_,
    to_dtype,
    view,
)
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.gather import with_index_checked
from torch_spyre._inductor.lowerings.index_put import put
from torch_spyre._inductor.lowerings.indexed_store import (
    as_bool,
    last_along,
    num_elements,
    reduction,
    store_at,
)
from torch_spyre._inductor.lowerings.memory import realized, realized_copy, store_into
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten
# The reduction loop of each value of the argument `reduce`.
_REDUCTIONS = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}
# The op on two tensors that each reduction loop repeats.
_COMBINE = {"sum": aten.add, "prod": aten.mul, "max": aten.maximum, "min": aten.minimum}
# Elements along a dim that are reduced at once: the indices of all pairs of them are compared.
_MAX_REDUCED = 16_384


@register_lowering(aten.slice_scatter.default)
def _slice_scatter(
    x: ir.TensorBox,
    source: ir.TensorBox,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> ir.TensorBox:
    result = realized_copy(x)
    if step > 1:
        # One store cannot write elements with gaps between them.
        size = concrete(x.get_size()[dim])
        first, _, _ = slice(start, end, step).indices(size)
        indices = _arange(concrete(source.get_size()[dim]), first, step, x)
        return put(result, [*[None] * (dim % len(x.get_size())), indices], source, False)
    destination = slice_(result, dim, start or 0, end, step)
    store_into(source, destination)
    return result


@register_lowering(aten.select_scatter.default)
def _select_scatter(x: ir.TensorBox, source: ir.TensorBox, dim: int, index: int) -> ir.TensorBox:
    result = realized_copy(x)
    size = list(x.get_size())
    index %= concrete(size[dim])
    destination = slice_(result, dim, index, index + 1)
    size[dim] = 1
    store_into(view(source, size), destination)
    return result


@register_lowering(aten.scatter.src, aten.scatter.value)
def _scatter(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scattered(x, dim, index, src, None, True)


@register_lowering(aten.scatter_add.default)
def _scatter_add(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scattered(x, dim, index, src, "sum", True)


@register_lowering(aten.scatter.reduce, aten.scatter.value_reduce)
def _scatter_with_reduce(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, *, reduce: str
) -> ir.TensorBox:
    return _scattered(x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce], True)


@register_lowering(aten.scatter_reduce.two)
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
    x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, kind: str | None, include_self: bool
) -> ir.TensorBox:
    """Return x with elements scattered along a dim, reduced by `kind`, or stored if it is None."""
    shape = x.get_size()
    if kind is not None and x.get_dtype() is torch.bool:
        if isinstance(src, ir.TensorBox):
            src = to_dtype(src, torch.int32)
        counts = _scattered(to_dtype(x, torch.int32), dim, index, src, kind, include_self)
        return as_bool(counts)
    if not shape:
        x = view(x, [1])
    result = realized_copy(x)
    if not index.get_size():
        index = view(index, [1])
    if num_elements(index) == 0:
        return result if shape else view(result, [])
    dim %= len(result.get_size())
    if not isinstance(src, ir.TensorBox):
        src = full_like(index, src, dtype=x.get_dtype())
    elif not src.get_size():
        src = view(src, [1])
    index = realized(index)
    length = concrete(index.get_size()[dim])
    # A mean needs the count of all elements. Without x's element, chunks cannot be combined.
    is_chunked = kind in _REDUCTIONS and kind != "mean" and include_self
    chunk_size = _MAX_REDUCED if is_chunked else length
    for begin in range(0, length, chunk_size):
        end = min(begin + chunk_size, length)
        index_chunk, values = (slice_(tensor, dim, begin, end) for tensor in (index, src))
        _scatter_chunk(result, dim, index_chunk, values, kind, include_self)
    return result if shape else view(result, [])


def _scatter_chunk(
    x: ir.TensorBox,
    dim: int,
    index: ir.TensorBox,
    src: ir.TensorBox,
    kind: str | None,
    include_self: bool,
) -> None:
    """Scatter one chunk of elements into x, in place."""
    load_index, load = index.make_loader(), to_dtype(src, x.get_dtype()).make_loader()
    # Only as many elements as there are indices are scattered; the source may have more.
    values = ir.Pointwise.create(
        device=x.get_device(), dtype=x.get_dtype(), inner_fn=load, ranges=index.get_size()
    )
    extent = x.get_size()[dim]
    values = with_index_checked(values, extent, index)

    def position(point: Sequence[Any]) -> list[Any]:
        coordinates = list(point)
        coordinates[dim] = ops.indirect_indexing(
            load_index(point), extent, check=False, wrap_neg=False
        )
        return coordinates

    if kind is not None:
        values = _reduce_duplicates(x, dim, index, values, kind, include_self)
    if concrete(extent) == 1:
        values = last_along(values, [dim])
    store_at(x, values, position)


def _reduce_duplicates(
    x: ir.TensorBox,
    dim: int,
    index: ir.TensorBox,
    values: ir.TensorBox,
    kind: str,
    include_self: bool,
) -> ir.TensorBox:
    """Return, for each value, the reduction of all with its index, and of x if `include_self`."""
    reduction_type = _REDUCTIONS[kind]
    load, load_index = values.make_loader(), index.make_loader()
    dtype, ranges = x.get_dtype(), index.get_size()

    def with_equal_index(inner: Callable[..., Any], identity: Any) -> Callable[..., Any]:
        def masked(point: Sequence[Any], reduced: Sequence[Any]) -> Any:
            duplicate = [*point[:dim], reduced[0], *point[dim + 1 :]]
            is_equal = ops.eq(load_index(point), load_index(duplicate))
            return ops.where(is_equal, inner(duplicate), ops.constant(identity, dtype))

        return masked

    def reduce(inner: Callable[..., Any], identity: Any, kind: str) -> ir.TensorBox:
        return reduction(x, ranges, [ranges[dim]], kind, with_equal_index(inner, identity))

    result = reduce(load, _identity(reduction_type, dtype), reduction_type)
    if include_self:
        current = lowerings[aten.gather.default](x, dim, index)
        result = lowerings[_COMBINE[reduction_type]](current, result)
    if kind == "mean":
        counts = reduce(lambda _: ops.constant(1, dtype), 0, "sum")
        counts = add(counts, 1) if include_self else counts
        divide = div if dtype in FLOAT_DTYPES else floordiv
        result = to_dtype(divide(result, counts), dtype)
    return result


def _identity(reduction_type: str, dtype: torch.dtype) -> float | int:
    """Return the identity element of a reduction. The card stores int64 in 32 bits."""
    if reduction_type in ("sum", "prod"):
        return 0 if reduction_type == "sum" else 1
    if dtype in FLOAT_DTYPES:
        return -math.inf if reduction_type == "max" else math.inf
    limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    return limits.min if reduction_type == "max" else limits.max


def _arange(length: int, start: int, step: int, like: ir.TensorBox) -> ir.TensorBox:
    """Return `length` indices from a start on, on the device of a tensor."""
    return ir.Pointwise.create(
        device=like.get_device(),
        dtype=torch.int32,
        inner_fn=lambda point: ops.index_expr(start + step * point[0], torch.int32),
        ranges=[length],
    )

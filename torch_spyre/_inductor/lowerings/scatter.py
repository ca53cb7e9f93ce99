"""Lowerings of `scatter`, `scatter_reduce`, `slice_scatter` and `select_scatter`."""

import math
from collections.abc import Sequence
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
    where,
)
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.index_put import put
from torch_spyre._inductor.lowerings.indexed import filled, scatter_in_scratchpad
from torch_spyre._inductor.lowerings.indexed_store import as_bool, num_elements
from torch_spyre._inductor.lowerings.memory import realized_copy, store_into
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


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
    if not index.get_size():
        index = view(index, [1])
    if num_elements(index) == 0:
        return realized_copy(x) if shape else view(realized_copy(x), [])
    dim %= len(x.get_size())
    if not isinstance(src, ir.TensorBox):
        src = filled(src, index.get_size(), x.get_dtype(), x)
    elif not src.get_size():
        src = view(src, [1])
    src = to_dtype(_first_elements(src, index, range(len(index.get_size()))), x.get_dtype())
    unindexed = [d for d in range(len(x.get_size())) if d != dim]
    part = _first_elements(x, index, unindexed)
    result = _scattered_into(part, dim, index, src, kind, include_self)
    if part is not x:
        whole = realized_copy(x)
        store_into(result, _first_elements(whole, index, unindexed))
        result = whole
    return result if shape else view(result, [])


def _first_elements(x: ir.TensorBox, like: ir.TensorBox, dims: Sequence[int]) -> ir.TensorBox:
    """Return as many elements of these dims as another tensor has."""
    for dim in dims:
        length = concrete(like.get_size()[dim])
        if length < concrete(x.get_size()[dim]):
            x = slice_(x, dim, 0, length)
    return x


def _scattered_into(
    x: ir.TensorBox,
    dim: int,
    index: ir.TensorBox,
    src: ir.TensorBox,
    kind: str | None,
    include_self: bool,
) -> ir.TensorBox:
    """Return x with elements scattered along a dim; the other dims have the same sizes."""
    if kind is None:
        return scatter_in_scratchpad(x, dim, index, src, "set")
    reduce, dtype = "sum" if kind == "mean" else kind, x.get_dtype()
    if include_self and kind != "mean":
        return scatter_in_scratchpad(x, dim, index, src, reduce)
    zeros = filled(0, x.get_size(), torch.int32, x)
    ones = filled(1, index.get_size(), torch.int32, x)
    counts = scatter_in_scratchpad(zeros, dim, index, ones, "sum")
    initial = x
    if not include_self:
        identity = full_like(x, _identity(reduce, dtype))
        initial = where(lowerings[aten.gt.Scalar](counts, 0), identity, x)
    result = scatter_in_scratchpad(initial, dim, index, src, reduce)
    if kind != "mean":
        return result
    one = filled(1, x.get_size(), torch.int32, x)
    divisor = add(counts, 1) if include_self else lowerings[aten.maximum.default](counts, one)
    divide = div if dtype in FLOAT_DTYPES else floordiv
    mean: ir.TensorBox = to_dtype(divide(result, to_dtype(divisor, dtype)), dtype)
    return mean


def _identity(reduce: str, dtype: torch.dtype) -> float | int:
    """Return the identity element of a reduction. The card stores int64 in 32 bits."""
    if reduce in ("sum", "prod"):
        return 0 if reduce == "sum" else 1
    if dtype in FLOAT_DTYPES:
        return -math.inf if reduce == "amax" else math.inf
    limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    return limits.min if reduce == "amax" else limits.max


def _arange(length: int, start: int, step: int, like: ir.TensorBox) -> ir.TensorBox:
    """Return `length` indices from a start on, on the device of a tensor."""
    return ir.Pointwise.create(
        device=like.get_device(),
        dtype=torch.int32,
        inner_fn=lambda point: ops.index_expr(start + step * point[0], torch.int32),
        ranges=[length],
    )

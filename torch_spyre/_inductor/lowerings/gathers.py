"""Elements read through indices."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import clone, full, index_impl, lowerings, view
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import copied, in_memory
from torch_spyre._inductor.lowerings.registry import lowers
from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten


@lowers(aten.embedding.default)
def _embedding(
    weight: ir.TensorBox,
    indices: ir.TensorBox,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> ir.TensorBox:
    return gathered(weight, [_on_their_own(indices)])


def _on_their_own(indices: ir.TensorBox) -> ir.TensorBox:
    """Kernels know index tensors by name: two parts of one tensor would be the same to them."""
    view = indices.data
    if not isinstance(view, ir.BaseView):
        return indices
    whole = [concrete(each) for each in view.unwrap_view().get_size()]
    if math.prod(whole) == math.prod(concrete(each) for each in indices.get_size()):
        return indices
    return in_memory(clone(indices))


@lowers(aten.index_select.default)
def _index_select(x: ir.TensorBox, dim: int, index: ir.TensorBox) -> ir.TensorBox:
    rank = len(x.get_size())
    if rank == 0:
        return copied(x)
    return gathered(x, [*[None] * (dim % rank), _at_least_1d(index)])


def _at_least_1d(x: ir.TensorBox) -> ir.TensorBox:
    return x if x.get_size() else view(x, [1])


@lowers(aten.index.Tensor)
def _index(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    wrapped: list[ir.TensorBox | None] = []
    for dim, index in enumerate(indices):
        if index is None:
            wrapped.append(None)
            continue
        if index.get_dtype() in MASK_DTYPES:
            raise UnsupportedError("indexing by flags")
        wrapped.append(wrapped_index(index, x.get_size()[dim]))
    return gathered(x, wrapped)


def wrapped_index(index: ir.TensorBox, size: Any) -> ir.TensorBox:
    """Negative indices count from the end."""
    load, dtype = index.make_loader(), index.get_dtype()

    def inner(place: Sequence[Any]) -> Any:
        value = load(place)
        below = ops.lt(value, ops.constant(0, dtype))
        return ops.where(below, ops.add(value, ops.constant(concrete(size), dtype)), value)

    return ir.Pointwise.create(
        device=index.get_device(), dtype=dtype, inner_fn=inner, ranges=index.get_size()
    )


def gathered(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    """Inductor's indexing, of tensors that are in memory: the card reads indices from there."""
    stored = [None if index is None else in_memory(index) for index in indices]
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    for dim, index in enumerate(stored):
        if index is not None:
            x = with_index_checked(x, x.get_size()[dim], index)
    result: ir.TensorBox = index_impl(readable(x, indexed), stored, check=False)
    return result


def readable(x: ir.TensorBox, indexed: Sequence[int]) -> ir.TensorBox:
    """In memory, in a shape that has the dims that are indexed: an index alone tells the place."""
    x.realize()
    if isinstance(x.data, ir.GenericView):
        return in_memory(clone(x))
    if isinstance(x.data, ir.ReinterpretView):
        seen, stored = x.data.get_layout(), x.data.data.get_layout()
        if not all(_is_whole_dim(dim, seen, stored) for dim in indexed):
            return in_memory(clone(x))
    return in_memory(x)


def _is_whole_dim(dim: int, seen: ir.Layout, stored: ir.Layout) -> bool:
    """Is a dim of a view one of the tensor's, from its begin on, in which no other dim moves?"""
    size, stride = concrete(seen.size[dim]), concrete(seen.stride[dim])
    if size == 1:
        return True
    others = [each for place, each in enumerate(seen.stride) if place != dim]
    moves = [concrete(each) for each in (*others, seen.offset - stored.offset)]
    for each, most in zip(map(concrete, stored.stride), map(concrete, stored.size), strict=True):
        if stride == each and size <= most:
            return all(move < stride or move % (stride * most) == 0 for move in moves)
    return False


@lowers(aten.gather.default)
def _gather(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, sparse_grad: bool = False
) -> ir.TensorBox | None:
    if not x.get_size() or not index.get_size():
        return None
    dim %= len(x.get_size())
    x = with_index_checked(x, x.get_size()[dim], index)
    load, load_index = readable(x, [dim]).make_loader(), in_memory(index).make_loader()
    size = x.get_size()[dim]

    def inner(place: Sequence[Any]) -> Any:
        where = list(place)
        where[dim] = ops.indirect_indexing(load_index(place), size, check=False, wrap_neg=False)
        return load(where)

    return ir.Pointwise.create(
        device=x.get_device(), dtype=x.get_dtype(), inner_fn=inner, ranges=index.get_size()
    )


def with_index_checked(x: ir.TensorBox, size: Any, index: ir.TensorBox) -> ir.TensorBox:
    """The tensor, once indices into a dim of that size are known to be 0 if it is 1.

    Accesses have no such dim, so nothing would be checked by them: two zeros are read, instead.
    """
    if concrete(size) != 1 or any(concrete(n) == 0 for n in index.get_size()):
        return x
    load, dtype = in_memory(index).make_loader(), index.get_dtype()

    def outside(place: Sequence[Any]) -> Any:
        value = load(place)
        is_one = ops.eq(value, ops.constant(1, dtype))
        return ops.where(is_one, ops.constant(2, dtype), value)

    device = x.get_device()
    places = ir.Pointwise.create(
        device=device, dtype=dtype, inner_fn=outside, ranges=index.get_size()
    )
    zeros = in_memory(full([2], 0.0, dtype=torch.float16, device=device))
    read = index_impl(zeros, [in_memory(_at_least_1d(places))], check=False)
    largest = lowerings[aten.amax.default](read)
    same = lowerings[aten.eq.Scalar](largest, 0.0)
    result: ir.TensorBox = lowerings[aten.where.self](same, x, x)
    return result

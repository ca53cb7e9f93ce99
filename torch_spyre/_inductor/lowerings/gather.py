"""Lowerings of reads through indices: `index`, `index_select`, `gather` and `embedding`."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import (
    check_and_broadcast_indices,
    clone,
    full,
    index_impl,
    lowerings,
    slice_,
    view,
)
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.indexed import gather_in_scratchpad
from torch_spyre._inductor.lowerings.indexed_dims import IndexedDims, expanded
from torch_spyre._inductor.lowerings.indexed_store import num_elements
from torch_spyre._inductor.lowerings.memory import realized, realized_copy
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten


@register_lowering(aten.embedding.default)
def _embedding(
    weight: ir.TensorBox,
    indices: ir.TensorBox,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> ir.TensorBox:
    return gather_dims(weight, [_whole_tensor(indices)])


def _whole_tensor(indices: ir.TensorBox) -> ir.TensorBox:
    """Return a copy of indices that view a part of a tensor.

    Kernels identify index tensors by name and would confuse two slices of one tensor.
    """
    view = indices.data
    if not isinstance(view, ir.BaseView):
        return indices
    base_size = [concrete(length) for length in view.unwrap_view().get_size()]
    if math.prod(base_size) == math.prod(concrete(length) for length in indices.get_size()):
        return indices
    return realized(clone(indices))


@register_lowering(aten.index_select.default)
def _index_select(x: ir.TensorBox, dim: int, index: ir.TensorBox) -> ir.TensorBox:
    rank = len(x.get_size())
    if rank == 0:
        return realized_copy(x)
    return gather_dims(x, [*[None] * (dim % rank), _at_least_1d(index)])


def _at_least_1d(x: ir.TensorBox) -> ir.TensorBox:
    return x if x.get_size() else view(x, [1])


@register_lowering(aten.index.Tensor)
def _index(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    wrapped: list[ir.TensorBox | None] = []
    for dim, index in enumerate(indices):
        if index is None:
            wrapped.append(None)
            continue
        if index.get_dtype() in MASK_DTYPES:
            raise UnsupportedError("indexing with a bool or uint8 mask")
        wrapped.append(wrapped_index(index, x.get_size()[dim]))
    return gather_dims(x, wrapped)


def wrapped_index(index: ir.TensorBox, size: Any) -> ir.TensorBox:
    """Return an index whose negative elements count from the end of a dim."""
    load, dtype = index.make_loader(), index.get_dtype()

    def inner(point: Sequence[Any]) -> Any:
        value = load(point)
        is_negative = ops.lt(value, ops.constant(0, dtype))
        return ops.where(is_negative, ops.add(value, ops.constant(concrete(size), dtype)), value)

    return ir.Pointwise.create(
        device=index.get_device(), dtype=dtype, inner_fn=inner, ranges=index.get_size()
    )


def gather_dims(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    """Index with Inductor's lowering, on realized tensors: the card reads indices from memory."""
    stored = [None if index is None else realized(index) for index in indices]
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    if _is_along_sticks(x, indexed) and all(map(num_elements, (x, *filter(None, stored)))):
        return _gather_elements(x, stored)
    for dim, index in enumerate(stored):
        if index is not None:
            x = with_index_checked(x, x.get_size()[dim], index)
    result: ir.TensorBox = index_impl(indexable(x, indexed), stored, check=False)
    return result


def _is_along_sticks(x: ir.TensorBox, indexed: Sequence[int]) -> bool:
    """Return whether the last dim is indexed, so that elements and not sticks are gathered."""
    dims = [dim for dim, length in enumerate(x.get_size()) if concrete(length) > 1]
    return bool(dims) and dims[-1] in indexed


def _gather_elements(x: ir.TensorBox, indices: Sequence[ir.TensorBox | None]) -> ir.TensorBox:
    """Gather from tiles of the whole tensor in the scratchpad."""
    broadcast, indexed = check_and_broadcast_indices(indices, x.get_device())
    dims = IndexedDims([None if index is None else realized(index) for index in broadcast], indexed)
    table, index = dims.table(x), dims.flat_index(x)
    outer, _, inner = (concrete(length) for length in table.get_size())
    shape = [outer, num_elements(index), inner]
    result = gather_in_scratchpad(table, 1, expanded(index, shape))
    size = [concrete(x.get_size()[dim]) for dim in dims.order(len(x.get_size()))]
    size[dims.first : dims.first + len(indexed)] = dims.index_size
    gathered: ir.TensorBox = view(result, size)
    return gathered


def indexable(x: ir.TensorBox, indexed: Sequence[int]) -> ir.TensorBox:
    """Return a tensor in memory in which every indexed dim is a dim of the stored tensor.

    The card's memory can be addressed by an index, but not by an expression of an index.
    """
    x.realize()
    if isinstance(x.data, ir.GenericView):
        return realized(clone(x))
    if isinstance(x.data, ir.ReinterpretView):
        layout, stored = x.data.get_layout(), x.data.data.get_layout()
        if not all(_is_stored_dim(dim, layout, stored) for dim in indexed):
            return realized(clone(x))
    return realized(x)


def _is_stored_dim(dim: int, view: ir.Layout, stored: ir.Layout) -> bool:
    """Return whether a dim of a view is a dim of the stored tensor, from its first element on.

    The other dims and the offset of the view must not move along it.
    """
    size, stride = concrete(view.size[dim]), concrete(view.stride[dim])
    if size == 1:
        return True
    other_strides = [step for axis, step in enumerate(view.stride) if axis != dim]
    steps = [concrete(step) for step in (*other_strides, view.offset - stored.offset)]
    for stored_stride, stored_size in zip(
        map(concrete, stored.stride), map(concrete, stored.size), strict=True
    ):
        if stride == stored_stride and size <= stored_size:
            return all(step < stride or step % (stride * stored_size) == 0 for step in steps)
    return False


@register_lowering(aten.gather.default)
def _gather(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, sparse_grad: bool = False
) -> ir.TensorBox | None:
    if not x.get_size() or not index.get_size():
        return None
    dim %= len(x.get_size())
    size = [concrete(length) for length in index.get_size()]
    for other, length in enumerate(size):
        # The index may be shorter than x in the other dims.
        if other != dim and length < concrete(x.get_size()[other]):
            x = slice_(x, other, 0, length)
    return gather_in_scratchpad(x, dim, index)


def with_index_checked(x: ir.TensorBox, size: Any, index: ir.TensorBox) -> ir.TensorBox:
    """Return the tensor with a dependency on a bounds check of indices into a dim of size 1.

    Loops drop dims of size 1, so accesses along them check no bounds. Instead, a tensor of two
    zeros is read at these indices with 1 replaced by 2: every index but 0 is out of bounds.
    """
    if concrete(size) != 1 or any(concrete(n) == 0 for n in index.get_size()):
        return x
    load, dtype = realized(index).make_loader(), index.get_dtype()

    def checked_index(point: Sequence[Any]) -> Any:
        value = load(point)
        is_one = ops.eq(value, ops.constant(1, dtype))
        return ops.where(is_one, ops.constant(2, dtype), value)

    device = x.get_device()
    checked = ir.Pointwise.create(
        device=device, dtype=dtype, inner_fn=checked_index, ranges=index.get_size()
    )
    zeros = realized(full([2], 0.0, dtype=torch.float16, device=device))
    read = index_impl(zeros, [realized(_at_least_1d(checked))], check=False)
    maximum = lowerings[aten.amax.default](read)
    is_zero = lowerings[aten.eq.Scalar](maximum, 0.0)
    result: ir.TensorBox = lowerings[aten.where.self](is_zero, x, x)
    return result

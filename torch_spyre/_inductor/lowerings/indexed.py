"""Lowers gathers and scatters along one dim to the loops of the op in `multi_loop/indexed`."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import expand, full, view

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import memory_loader, realized
from torch_spyre._inductor.lowerings.multi_loop import multi_loop_reduction
from torch_spyre._inductor.op_table.indexed import GATHER, SCATTERS
from torch_spyre._inductor.tiling.tile_plan import tile_budget
from torch_spyre.cards import load_card


def gather_in_scratchpad(x: ir.TensorBox, dim: int, index: ir.TensorBox) -> ir.TensorBox:
    """Return the elements of x at indices along a dim; all other dims have the same sizes."""
    load, load_index = (_loader(_three_dims(tensor, dim)) for tensor in (x, index))
    outer, length, inner = _sizes(index, dim)

    def operands(point: Sequence[Any], scanned: Sequence[Any]) -> tuple[Any, ...]:
        return load([point[0], *scanned, point[2]]), load_index(point)

    return _result(GATHER, operands, (outer, length, inner), _sizes(x, dim)[1], x, index)


def scatter_in_scratchpad(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, source: ir.TensorBox, reduce: str
) -> ir.TensorBox:
    """Return x with the elements of a source stored at indices along a dim, or combined there.

    `reduce` is a key of `SCATTERS`. All other dims have the same sizes.
    """
    tensors = (x, index, source)
    load, load_index, load_source = (_loader(_three_dims(tensor, dim)) for tensor in tensors)

    def operands(point: Sequence[Any], scanned: Sequence[Any]) -> tuple[Any, ...]:
        position = [point[0], *scanned, point[2]]
        return load(point), load_index(position), load_source(position)

    length = _sizes(index, dim)[1]
    return _result(SCATTERS[reduce], operands, _sizes(x, dim), length, x, x)


def _sizes(x: ir.TensorBox, dim: int) -> tuple[int, int, int]:
    """Return the number of elements of the dims before a dim, of the dim, and of those after it."""
    size = [concrete(length) for length in x.get_size()]
    return math.prod(size[:dim]), size[dim], math.prod(size[dim + 1 :])


def _three_dims(x: ir.TensorBox, dim: int) -> ir.TensorBox:
    result: ir.TensorBox = view(x, list(_sizes(x, dim)))
    return result


def _loader(x: ir.TensorBox) -> Callable[[Sequence[Any]], Any]:
    """Return a loader that reads memory; an expanded tensor that is stored is not copied."""
    data = x.data
    while isinstance(data, ir.MutableBox | ir.BaseView):
        if isinstance(data, ir.ReinterpretView):
            load: Callable[[Sequence[Any]], Any] = x.make_loader()
            return load
        data = data.data
    return memory_loader(x)


def num_passes(x: ir.TensorBox) -> int:
    """Return about how often values are loaded that are scattered into x: once for each tile."""
    card = load_card()
    capacity = card.compute.cores * tile_budget(card)
    elements = math.prod(concrete(length) for length in x.get_size())
    # A tile is loaded, accumulated in float32 and stored.
    return -(-elements * (2 * x.get_dtype().itemsize + 4) // capacity)


def filled(value: float, size: Sequence[Any], dtype: torch.dtype, like: ir.TensorBox) -> Any:
    """Return a tensor of one value, which has one element in memory."""
    one = full([1] * len(size), value, dtype=dtype, device=like.get_device())
    return expand(realized(one), size)


def _result(
    kind: str,
    operands: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]],
    ranges: Sequence[int],
    scanned: int,
    source: ir.TensorBox,
    like: ir.TensorBox,
) -> ir.TensorBox:
    """Return the result with the dtype of `source` and the size of `like`."""
    meta = torch.empty(ranges, dtype=source.get_dtype(), device="meta")
    stored = multi_loop_reduction(kind, operands, ranges, [scanned], source, meta)
    result: ir.TensorBox = view(stored, list(like.get_size()))
    return result

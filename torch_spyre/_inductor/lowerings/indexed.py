"""Lowers gathers and scatters along one dim to the loops of the op in `multi_loop/indexed`."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import view

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import memory_loader
from torch_spyre._inductor.lowerings.multi_loop import multi_loop_reduction
from torch_spyre._inductor.op_table.indexed import GATHER, SCATTERS


def gather_in_scratchpad(x: ir.TensorBox, dim: int, index: ir.TensorBox) -> ir.TensorBox:
    """Return the elements of x at indices along a dim; all other dims have the same sizes."""
    load = memory_loader(_three_dims(x, dim))
    load_index = memory_loader(_three_dims(index, dim))
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
    load, load_index, load_source = (memory_loader(_three_dims(t, dim)) for t in tensors)

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

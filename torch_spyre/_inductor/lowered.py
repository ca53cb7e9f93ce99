"""From a graph that Inductor lowered to bundles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.graph import GraphLowering

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts.sticks import default_layout
from torch_spyre._inductor.loop_tracer import concrete, trace_loop
from torch_spyre.errors import UnsupportedError


def tensor_of(name: str, layout: ir.Layout) -> Tensor:
    """An Inductor buffer as a tensor whose device layout is still open."""
    size = tuple(concrete(each) for each in layout.size)
    stride = tuple(concrete(each) for each in layout.stride)
    return Tensor(name, size, stride, layout.dtype)


def bundle_of(
    name: str,
    buffers: Sequence[ir.ComputedBuffer],
    known: Mapping[str, Tensor],
    results: Sequence[str],
    graph: GraphLowering,
) -> Bundle:
    """A bundle of these buffers; `known` are tensors that exist before it runs."""
    ops = [trace_loop(buffer) for buffer in buffers]
    tensors: dict[str, Tensor] = {}
    for op in ops:
        names = [op.target, *(load.buffer for load in op.loads)]
        names += [index.buffer for index in op.indices]
        for each in names:
            if each not in tensors:
                tensors[each] = known.get(each) or tensor_of(each, _layout(graph, each))
    ops = [
        replace(op, partial=True)
        if op.target in known and not _fills_sticks(tensors[op.target])
        else op
        for op in ops
    ]
    chosen = {op.target for op in ops if op.target == op.name}
    for each, tensor in tensors.items():
        if tensor.layout is None and each not in chosen:
            # Made elsewhere, or in parts by several ops: nobody can choose.
            layout = default_layout(tensor.size, tensor.stride, tensor.dtype)
            tensors[each] = replace(tensor, layout=layout)
    made = {op.target for op in ops}
    # Writing to what was there before is seen by others, whoever they are.
    outputs = [each for each in tensors if each in made and (each in results or each in known)]
    inputs = [each for each in tensors if each not in made]
    return Bundle(name, tuple(ops), tensors, (*inputs, *outputs), frozenset(outputs))


def _fills_sticks(tensor: Tensor) -> bool:
    """Is nothing of anybody's in the sticks that the tensor does not fill?

    There is, if the tensor is a part of another whose rows go on. Where the next row follows in the
    same place of the host's order, rows end where they seem to.
    """
    assert tensor.layout is not None
    lanes, along = tensor.layout.device_size[-1], tensor.layout.stride_map[-1]
    dims = list(zip(tensor.size, tensor.stride, strict=True))
    lengths = [size for size, stride in dims if stride == along and size > 1]
    if along < 0 or not lengths or lengths[0] % lanes == 0:
        return True
    return any(size > 1 and stride == lengths[0] * along for size, stride in dims)


def _layout(graph: GraphLowering, name: str) -> ir.Layout:
    buffer: Any = graph.get_buffer(name)
    layout = buffer.get_layout() if not isinstance(buffer, torch.Tensor) else None
    if not isinstance(layout, ir.Layout):
        raise UnsupportedError(f"a buffer with layout {type(layout).__name__}")
    return layout

"""Builds a bundle from buffers of a graph that Inductor lowered."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.graph import GraphLowering

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts.sticks import default_layout
from torch_spyre._inductor.loop_ir import LoopOp
from torch_spyre._inductor.loop_tracer import concrete, origin_of, trace_loop
from torch_spyre._inductor.provenance import add_origins
from torch_spyre.errors import UnsupportedError


def tensor_of(name: str, layout: ir.Layout) -> Tensor:
    """Return an Inductor buffer as a tensor without a device layout."""
    size = tuple(map(concrete, layout.size))
    stride = tuple(map(concrete, layout.stride))
    return Tensor(name, size, stride, layout.dtype)


def build_bundle(
    name: str,
    buffers: Sequence[ir.ComputedBuffer],
    known: Mapping[str, Tensor],
    results: Sequence[str],
    graph: GraphLowering,
    partially_aliased: frozenset[str] = frozenset(),
) -> Bundle:
    """Trace the loops of these buffers; return them as a bundle on which no pass has run.

    `known` are the tensors that exist before the bundle runs; `results` the buffers that are read
    after it.
    """
    ops = [_traced(buffer) for buffer in buffers]
    tensors: dict[str, Tensor] = {}
    for op in ops:
        names = [op.target, *(load.buffer for load in op.loads)]
        names += [index.buffer for index in op.indices]
        for buffer in names:
            if buffer not in tensors:
                tensors[buffer] = known.get(buffer) or tensor_of(buffer, _layout(graph, buffer))
    ops = [
        replace(op, is_partial=True)
        if op.target in known and not _owns_whole_sticks(tensors[op.target])
        else op
        for op in ops
    ]
    # The layout pass chooses the layouts of tensors that one op writes completely.
    planned = {op.target for op in ops if op.target == op.name}
    for buffer, tensor in tensors.items():
        if tensor.layout is None and buffer not in planned:
            layout = default_layout(tensor.size, tensor.stride, tensor.dtype)
            tensors[buffer] = replace(tensor, layout=layout)
    written = {op.target for op in ops}
    # Writes to tensors that existed before are visible after the bundle.
    visible = {*results, *known}
    outputs = [buffer for buffer in tensors if buffer in written and buffer in visible]
    inputs = [buffer for buffer in tensors if buffer not in written]
    return Bundle(
        name,
        tuple(ops),
        tensors,
        (*inputs, *outputs),
        frozenset(outputs),
        partially_aliased=partially_aliased,
        user_ops=_user_ops(buffers),
    )


def _user_ops(buffers: Sequence[ir.ComputedBuffer]) -> tuple[str, ...]:
    """Return the names of the functions that the user's program called, as Dynamo recorded them."""
    names: dict[str, None] = {}
    for origin in (origin for buffer in buffers for origin in buffer.origins):
        stack = origin.meta.get("source_fn_stack")
        forward_stack = origin.meta.get("fwd_source_fn_stack")
        if stack or forward_stack:
            function = (stack or forward_stack)[-1][1]
            name = function if isinstance(function, str) else function.__name__
            names[name if stack else f"the gradient of {name}"] = None
    return tuple(names)


def _traced(buffer: ir.ComputedBuffer) -> LoopOp:
    try:
        return trace_loop(buffer)
    except UnsupportedError as error:
        add_origins(error, [origin_of(buffer)])
        raise


def _owns_whole_sticks(tensor: Tensor) -> bool:
    """Return whether the partly filled sticks of the tensor hold no elements of other tensors.

    They do if the tensor is a slice of one with longer rows. If the next row follows on the host
    without a gap, the tensor is not such a slice.
    """
    assert tensor.layout is not None
    lanes, stick_stride = tensor.layout.device_size[-1], tensor.layout.stride_map[-1]
    dims = list(zip(tensor.size, tensor.stride, strict=True))
    lengths = [size for size, stride in dims if stride == stick_stride and size > 1]
    if stick_stride < 0 or not lengths or lengths[0] % lanes == 0:
        return True
    return any(size > 1 and stride == lengths[0] * stick_stride for size, stride in dims)


def _layout(graph: GraphLowering, name: str) -> ir.Layout:
    buffer: Any = graph.get_buffer(name)
    layout = buffer.get_layout() if not isinstance(buffer, torch.Tensor) else None
    if not isinstance(layout, ir.Layout):
        raise UnsupportedError(f"a buffer with layout {type(layout).__name__}")
    return layout

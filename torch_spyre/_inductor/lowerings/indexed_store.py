"""Stores through indices."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import lowerings, slice_
from torch._inductor.virtualized import V

from torch_spyre._inductor.loop_tracer import concrete

aten = torch.ops.aten


def store_at(x: ir.TensorBox, values: ir.TensorBox, position: Callable[..., Any]) -> None:
    """Store each value into x at the coordinates to which `position` maps those of the value.

    The values are realized first, as they may read from x.
    """
    values.realize()
    # A concatenation could otherwise make x a part of its result, with other strides.
    x.freeze_layout()
    buffer = ir.ComputedBuffer(
        name=None,
        layout=ir.MutationLayoutSHOULDREMOVE(x),
        data=ir.Scatter(
            device=x.get_device_or_error(),
            dtype=x.get_dtype(),
            inner_fn=values.make_loader(),
            ranges=values.get_size(),
            output_indexer=position,
            scatter_mode=None,
        ),
    )
    buffer.name = V.graph.register_buffer(buffer)
    V.graph.register_operation(buffer)


def last_along(values: ir.TensorBox, dims: Sequence[int]) -> ir.TensorBox:
    """Return the last values along dims, which remain if all are stored at one position.

    Loops drop a destination dim of size 1, so a store could not determine which is last.
    """
    values.realize()
    for dim in dims:
        size = concrete(values.get_size()[dim])
        values = slice_(values, dim, size - 1, size)
    return values


def as_bool(counts: ir.TensorBox) -> ir.TensorBox:
    """Return bools that were accumulated as integers: True if nonzero."""
    result: ir.TensorBox = lowerings[aten.ne.Scalar](counts, 0)
    return result


def num_elements(x: ir.TensorBox) -> int:
    """Return the number of elements of a tensor."""
    return math.prod(concrete(size) for size in x.get_size())

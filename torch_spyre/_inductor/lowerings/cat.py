"""Lowerings of `cat` and of constant padding, which concatenates."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import clone, lowerings, slice_, to_dtype

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.registry import register_lowering

aten = torch.ops.aten


@register_lowering(aten.cat.default)
def _cat(tensors: Sequence[ir.TensorBox], dim: int = 0) -> Any:
    dtype = tensors[0].get_dtype()
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.get_dtype())
    # PyTorch ignores empty vectors, whatever the rank of the other tensors.
    present = [to_dtype(tensor, dtype) for tensor in tensors if not _is_empty_vector(tensor)]
    if len(present) < 2:
        return clone(present[0]) if present else None
    return ir.TensorBox(ir.ConcatKernel.create(present, dim % len(present[0].get_size())))


def _is_empty_vector(x: ir.TensorBox) -> bool:
    size = x.get_size()
    return len(size) == 1 and concrete(size[0]) == 0


@register_lowering(aten.constant_pad_nd.default)
def _pad(x: ir.TensorBox, pad: Sequence[int], value: float = 0) -> ir.TensorBox:
    result, is_copy = x, False
    rank = len(x.get_size())
    for position in range(len(pad) // 2):
        dim = rank - 1 - position
        low, high = pad[2 * position], pad[2 * position + 1]
        size = concrete(result.get_size()[dim])
        result = slice_(result, dim, max(0, -low), size - max(0, -high))
        parts = [_filled(result, dim, low, value), result, _filled(result, dim, high, value)]
        present = [part for part in parts if part is not None]
        if len(present) > 1:
            result = ir.TensorBox(ir.ConcatKernel.create(present, dim))
            is_copy = True
    return result if is_copy else clone(result)


def _filled(like: ir.TensorBox, dim: int, count: int, value: float) -> ir.TensorBox | None:
    """Return a tensor of `count` equal elements along a dim, or None if there are none."""
    if count <= 0:
        return None
    size = list(like.get_size())
    size[dim] = count
    full = lowerings[aten.full.default]
    result: ir.TensorBox = full(size, value, dtype=like.get_dtype(), device=like.get_device())
    return result

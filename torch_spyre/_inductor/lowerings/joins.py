"""Tensors put together: one after the other, and with a margin."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import clone, lowerings, slice_, to_dtype

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.registry import lowers

aten = torch.ops.aten


@lowers(aten.cat.default)
def _cat(tensors: Sequence[ir.TensorBox], dim: int = 0) -> Any:
    dtype = tensors[0].get_dtype()
    for each in tensors[1:]:
        dtype = torch.promote_types(dtype, each.get_dtype())
    parts = [to_dtype(each, dtype) for each in tensors]
    # PyTorch lets empty vectors join tensors of any rank.
    parts = [each for each in parts if len(each.get_size()) != 1 or concrete(each.get_size()[0])]
    if len(parts) < 2:
        return clone(parts[0]) if parts else None
    return ir.TensorBox(ir.ConcatKernel.create(parts, dim % len(parts[0].get_size())))


@lowers(aten.constant_pad_nd.default)
def _pad(x: ir.TensorBox, pad: Sequence[int], value: float = 0) -> ir.TensorBox:
    result = x
    rank = len(x.get_size())
    for position in range(len(pad) // 2):
        dim = rank - 1 - position
        low, high = pad[2 * position], pad[2 * position + 1]
        size = concrete(result.get_size()[dim])
        result = slice_(result, dim, max(0, -low), size - max(0, -high))
        parts = [_filled(result, dim, low, value), result, _filled(result, dim, high, value)]
        present = [each for each in parts if each is not None]
        if len(present) > 1:
            result = ir.TensorBox(ir.ConcatKernel.create(present, dim))
    return clone(result) if result is x else result


def _filled(like: ir.TensorBox, dim: int, count: int, value: float) -> ir.TensorBox | None:
    if count <= 0:
        return None
    size = list(like.get_size())
    size[dim] = count
    full = lowerings[aten.full.default]
    result: ir.TensorBox = full(size, value, dtype=like.get_dtype(), device=like.get_device())
    return result

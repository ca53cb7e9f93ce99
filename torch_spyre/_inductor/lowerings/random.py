"""Lowers random words to loops: each element is one instruction on its index."""

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.lowering import broadcast_tensors, make_pointwise
from torch._inductor.virtualized import ops

from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre.ops.random_values import RANDOM_WORDS, UPPER_HALF


@register_lowering(RANDOM_WORDS)
def _random_words(draw: ir.TensorBox, size: Sequence[Any], word: int) -> ir.TensorBox:
    load = draw.make_loader()
    strides = ir.FlexibleLayout.contiguous_strides(size)

    def words_at(index: Sequence[sympy.Expr]) -> Any:
        position = sum((i * stride for i, stride in zip(index, strides, strict=True)), sympy.S.Zero)
        seed_low, seed_high, draw_low, draw_high = (
            load([sympy.Integer(element), sympy.S.Zero]) for element in range(4)
        )
        counter = ops.index_expr(position, torch.int32)
        block = ops.constant(word, torch.int32)
        return ops.philox(counter, block, draw_low, draw_high, seed_low, seed_high)  # type: ignore[attr-defined]  # added while compiling

    result: ir.TensorBox = ir.Pointwise.create(
        device=draw.get_device(), dtype=torch.int32, inner_fn=words_at, ranges=list(size)
    )
    return result


@register_lowering(UPPER_HALF)
def _upper_half(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    pointwise = make_pointwise(lambda a, b: ops.mulhigh(a, b))  # type: ignore[attr-defined]  # as above
    result: ir.TensorBox = pointwise(*broadcast_tensors(left, right))
    return result

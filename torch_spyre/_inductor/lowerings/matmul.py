"""Lowerings of matmuls."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import full, to_dtype
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import memory_loader
from torch_spyre._inductor.lowerings.registry import register_lowering
from torch_spyre._inductor.op_table import MATMUL

aten = torch.ops.aten


@register_lowering(aten.mm.default)
def _mm(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    (rows, inner), (_, columns) = left.get_size(), right.get_size()
    return matmul(left, right, [rows, columns], inner)


@register_lowering(aten.bmm.default)
def _bmm(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    batch, rows, inner = left.get_size()
    return matmul(left, right, [batch, rows, right.get_size()[2]], inner)


def matmul(
    left: ir.TensorBox, right: ir.TensorBox, size: Sequence[Any], inner: Any
) -> ir.TensorBox:
    """Return the matmul of two matrices or batches, whose reduced dim has the length `inner`."""
    if left.get_dtype() is torch.uint8:
        # The card stores uint8 in 32 bits: the conversion wraps sums that overflow.
        wide_left, wide_right = (to_dtype(operand, torch.int32) for operand in (left, right))
        result: ir.TensorBox = to_dtype(matmul(wide_left, wide_right, size, inner), torch.uint8)
        return result
    load_left, load_right = memory_loader(left), memory_loader(right)
    if concrete(inner) == 0:
        zeros: ir.TensorBox = full(size, 0, dtype=left.get_dtype(), device=left.get_device())
        return zeros
    if concrete(inner) == 1:
        # There is nothing to reduce.
        zero = 0
        return ir.Pointwise.create(
            device=left.get_device(),
            dtype=left.get_dtype(),
            inner_fn=lambda index: ops.mul(
                load_left([*index[:-1], zero]), load_right([*index[:-2], zero, index[-1]])
            ),
            ranges=list(size),
        )
    result = ir.TensorBox.create(
        ir.Reduction(
            device=left.get_device_or_error(),
            dtype=left.get_dtype(),
            inner_fn=lambda index, reduced: (
                load_left([*index[:-1], reduced[0]]),
                load_right([*index[:-2], reduced[0], index[-1]]),
            ),
            ranges=list(size),
            reduction_ranges=[inner],
            reduction_type=MATMUL,  # type: ignore[arg-type]  # not one of Inductor's types
            src_dtype=left.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    result.realize()
    return result

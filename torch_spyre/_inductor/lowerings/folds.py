"""Products of matrices, and means: what folds elements into one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import full, to_dtype
from torch._inductor.virtualized import ops

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.memory import read_from_memory
from torch_spyre._inductor.lowerings.registry import lowers
from torch_spyre._inductor.op_table import MATMUL

aten = torch.ops.aten


@lowers(aten.mm.default)
def _mm(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    (rows, inner), (_, columns) = left.get_size(), right.get_size()
    return product(left, right, [rows, columns], inner)


@lowers(aten.bmm.default)
def _bmm(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox:
    batch, rows, inner = left.get_size()
    return product(left, right, [batch, rows, right.get_size()[2]], inner)


def product(
    left: ir.TensorBox, right: ir.TensorBox, size: Sequence[Any], inner: Any
) -> ir.TensorBox:
    load_left, load_right = read_from_memory(left), read_from_memory(right)
    if concrete(inner) == 0:
        nothing: ir.TensorBox = full(size, 0, dtype=left.get_dtype(), device=left.get_device())
        return nothing
    if concrete(inner) == 1:
        # A sum of one product: nothing to fold.
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
            inner_fn=lambda index, along: (
                load_left([*index[:-1], along[0]]),
                load_right([*index[:-2], along[0], index[-1]]),
            ),
            ranges=list(size),
            reduction_ranges=[inner],
            reduction_type=MATMUL,  # type: ignore[arg-type]  # a kind of our own
            src_dtype=left.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    result.realize()
    return result


@lowers(aten.mean.default, aten.mean.dim)
def _mean(
    x: ir.TensorBox,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> ir.TensorBox | None:
    if dtype is not None:
        x = to_dtype(x, dtype)
    size = x.get_size()
    dims = [dim] if isinstance(dim, int) else list(dim or range(len(size)))
    folded = sorted({each % len(size) for each in dims}) if size else []
    if not folded or any(concrete(each) == 0 for each in size):
        return None
    load = x.make_loader()
    kept = [each for each in range(len(size)) if each not in folded]

    def inner(index: Sequence[Any], along: Sequence[Any]) -> Any:
        place = [0] * len(size)
        points = index if not keepdim else [index[each] for each in kept]
        for each, value in zip(kept, points, strict=True):
            place[each] = value
        for each, value in zip(folded, along, strict=True):
            place[each] = value
        return load(place)

    ranges = [1 if each in folded else size[each] for each in range(len(size))]
    result = ir.TensorBox.create(
        ir.Reduction(
            device=x.get_device_or_error(),
            dtype=x.get_dtype(),
            inner_fn=inner,
            ranges=ranges if keepdim else [size[each] for each in kept],
            reduction_ranges=[size[each] for each in folded],
            reduction_type="mean",  # type: ignore[arg-type]  # a kind of our own
            src_dtype=x.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    result.realize()
    return result

"""Lowers an op to a reduction loop whose type a `MultiLoopOp` has registered."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir

InnerFunction = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]


def multi_loop_reduction(
    kind: str,
    inner_fn: InnerFunction,
    ranges: Sequence[Any],
    reduction_ranges: Sequence[Any],
    source: ir.TensorBox,
    like: torch.Tensor,
) -> ir.TensorBox:
    """Return a buffer that is computed by a loop of this kind.

    `inner_fn` accepts a point of the result and a reduced point, and returns loaded elements, then
    the constants of the op. The buffer has the dtype and strides of `like`, on the device of
    `source`.
    """
    box = ir.TensorBox.create(
        ir.Reduction(
            device=source.get_device_or_error(),
            dtype=like.dtype,
            inner_fn=inner_fn,
            ranges=list(ranges),
            reduction_ranges=list(reduction_ranges),
            reduction_type=kind,  # type: ignore[arg-type]  # not one of Inductor's kinds
            src_dtype=source.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    box.realize()
    # Inductor must not alias the buffer with another one that the program would then write.
    ir.as_storage_and_layout(box, freeze=True, exact_strides=list(like.stride()))
    return box

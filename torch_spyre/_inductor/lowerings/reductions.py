"""Lowering of means."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import to_dtype

from torch_spyre._inductor.loop_tracer import concrete
from torch_spyre._inductor.lowerings.registry import register_lowering

aten = torch.ops.aten


@register_lowering(aten.mean.default, aten.mean.dim)
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
    reduced_dims = sorted({axis % len(size) for axis in dims}) if size else []
    if not reduced_dims or any(concrete(length) == 0 for length in size):
        return None
    load = x.make_loader()
    remaining_dims = [axis for axis in range(len(size)) if axis not in reduced_dims]

    def inner(index: Sequence[Any], reduced: Sequence[Any]) -> Any:
        coordinates = [0] * len(size)
        remaining = index if not keepdim else [index[axis] for axis in remaining_dims]
        for axis, coordinate in zip(remaining_dims, remaining, strict=True):
            coordinates[axis] = coordinate
        for axis, coordinate in zip(reduced_dims, reduced, strict=True):
            coordinates[axis] = coordinate
        return load(coordinates)

    ranges = [1 if axis in reduced_dims else size[axis] for axis in range(len(size))]
    result = ir.TensorBox.create(
        ir.Reduction(
            device=x.get_device_or_error(),
            dtype=x.get_dtype(),
            inner_fn=inner,
            ranges=ranges if keepdim else [size[axis] for axis in remaining_dims],
            reduction_ranges=[size[axis] for axis in reduced_dims],
            reduction_type="mean",  # type: ignore[arg-type]  # not one of Inductor's types
            src_dtype=x.get_dtype(),
            reduction_hint=ir.ReductionHint.DEFAULT,
        )
    )
    result.realize()
    return result

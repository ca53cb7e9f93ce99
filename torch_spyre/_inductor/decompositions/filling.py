"""Decompositions of `repeat` and `eye`."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten


@register_decomposition(aten.repeat.default)
def _repeat(x: torch.Tensor, repeats: Sequence[int]) -> torch.Tensor:
    size = [*[1] * (len(repeats) - x.dim()), *x.shape]
    with_repeat_dims = x.reshape([n for length in size for n in (1, length)])
    expanded_size = [n for pair in zip(repeats, size, strict=True) for n in pair]
    result_size = [times * n for times, n in zip(repeats, size, strict=True)]
    if 0 in result_size:
        # A copy without elements would keep the strides of the expanded view.
        return x.new_empty(result_size)
    # Contiguous, whatever the strides of x: views of the result rely on that.
    expanded = with_repeat_dims.expand(expanded_size)
    return expanded.clone(memory_format=torch.contiguous_format).reshape(result_size)


@register_decomposition(aten.eye.m)
def _eye(
    n: int,
    m: int,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    rows, columns = (torch.arange(length, device=device) for length in (n, m))
    return (rows[:, None] == columns).to(dtype or torch.get_default_dtype())


@register_decomposition(aten.eye.default)
def _square_eye(n: int, **options: Any) -> Any:
    return _eye(n, n, **options)

"""Decompositions of `max_unpool`, which scatters elements to the indices of a max pooling."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten


def _max_unpool(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    dims = len(output_size)
    torch._check(
        indices.dtype is torch.int64 and indices.shape == x.shape,
        lambda: (
            f"max_unpooling{dims}d: indices must be int64 and of the input's shape "
            f"{list(x.shape)}, got {indices.dtype} of shape {list(indices.shape)}"
        ),
    )
    size = [*x.shape[:-dims], *output_size]
    zeros = x.new_zeros(*x.shape[:-dims], prod(output_size))
    if x.numel() == 0:
        return zeros.reshape(size)
    return zeros.scatter(-1, indices.flatten(-dims), x.flatten(-dims)).reshape(size)


@register_decomposition(aten.max_unpool2d.default)
def _max_unpool2d(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int]) -> Any:
    return _max_unpool(x, indices, output_size)


@register_decomposition(aten.max_unpool3d.default)
def _max_unpool3d(
    x: torch.Tensor,
    indices: torch.Tensor,
    output_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Any:
    return _max_unpool(x, indices, output_size)

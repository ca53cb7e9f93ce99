"""Decompositions of `max_unpool`, which puts elements where a pooling found them."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten


def _unpooled(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    dims = len(output_size)
    torch._check(
        indices.dtype is torch.int64 and indices.shape == x.shape,
        lambda: (
            f"max_unpooling{dims}d: indices must be int64 and of the shape {list(x.shape)} of what "
            f"is unpooled, got {indices.dtype} of shape {list(indices.shape)}"
        ),
    )
    size = [*x.shape[:-dims], *output_size]
    nothing = x.new_zeros(*x.shape[:-dims], prod(output_size))
    if x.numel() == 0:
        return nothing.reshape(size)
    return nothing.scatter(-1, indices.flatten(-dims), x.flatten(-dims)).reshape(size)


@decomposes(aten.max_unpool2d.default)
def _max_unpool2d(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int]) -> Any:
    return _unpooled(x, indices, output_size)


@decomposes(aten.max_unpool3d.default)
def _max_unpool3d(
    x: torch.Tensor,
    indices: torch.Tensor,
    output_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Any:
    return _unpooled(x, indices, output_size)

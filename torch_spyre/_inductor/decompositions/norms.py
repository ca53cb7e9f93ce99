"""Norms of vectors, layer norms, norms of weights, and the gradient of group norms.

Gradients of batch norms are PyTorch's own, and do not cancel.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._refs.linalg import vector_norm

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten
# Orders that take no powers.
_WITHOUT_POWERS = (0, 1, math.inf, -math.inf)


@decomposes(aten.linalg_vector_norm.default)
def _vector_norm(
    x: torch.Tensor,
    ord: float = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    if x.dtype not in HALF_DTYPES or dtype is not None or ord in _WITHOUT_POWERS:
        return vector_norm(x, ord, dim, keepdim, dtype=dtype)
    # Squares of small gradients are below the smallest half, whose roots are not.
    return vector_norm(x.to(torch.float32), ord, dim, keepdim).to(x.dtype)


@decomposes(aten.native_layer_norm.default)
def _layer_norm(
    x: torch.Tensor,
    shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    scale = torch.rsqrt((centred * centred).mean(dims, keepdim=True) + eps)
    result = centred * scale
    if weight is not None:
        result = result * weight
    if bias is not None:
        result = result + bias
    return result, mean, scale


@decomposes(aten.native_group_norm_backward.default)
def _group_norm_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """PyTorch's own subtracts sums of products that are large where the mean is."""
    if x.numel() == 0:
        return NotImplemented
    parts = batch, groups, channels // groups, size
    values, share = (each.reshape(parts).to(torch.float32) for each in (x, gradient))
    mean, scale = (each.reshape(batch, groups, 1, 1).to(torch.float32) for each in (mean, scale))
    normed = (values - mean) * scale
    for_x = for_weight = for_bias = None
    kind = x.dtype if weight is None else weight.dtype
    if output_mask[1]:
        for_weight = (share * normed).sum([0, 3]).reshape(channels).to(kind)
    if output_mask[2]:
        for_bias = share.sum([0, 3]).reshape(channels).to(kind)
    if output_mask[0]:
        if weight is not None:
            share = share * weight.reshape(1, *parts[1:3], 1).to(torch.float32)
        along = (share * normed).mean([2, 3], keepdim=True)
        centred = share - share.mean([2, 3], keepdim=True) - normed * along
        for_x = (centred * scale).reshape(x.shape).to(x.dtype)
    return for_x, for_weight, for_bias


@decomposes(aten._weight_norm_interface.default)
def _weight_norm(
    direction: torch.Tensor, length: torch.Tensor, dim: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight of these lengths along a dim, and the lengths that were there before."""
    wide = direction.to(torch.float32)
    norm = wide.square().sum(_others(direction, dim), keepdim=True).sqrt()
    return (wide * (length / norm)).to(direction.dtype), norm


@decomposes(aten._weight_norm_interface_backward.default)
def _weight_norm_backward(
    gradient: torch.Tensor,
    direction: torch.Tensor,
    length: torch.Tensor,
    norm: torch.Tensor,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    wide, norm = gradient.to(torch.float32), norm.to(torch.float32)
    unit = direction / norm
    along = (wide * unit).sum(_others(direction, dim), keepdim=True)
    for_direction = (wide - unit * along) * (length / norm)
    return for_direction.to(direction.dtype), along.to(length.dtype)


def _others(x: torch.Tensor, dim: int) -> list[int]:
    return [each for each in range(x.dim()) if each != dim % x.dim()]

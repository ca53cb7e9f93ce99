"""Decompositions of vector norms, layer norm, weight norm, and the gradient of group norm.

The gradient of batch norm needs no decomposition here: in PyTorch's, no large sums cancel.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._refs.linalg import vector_norm

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten
# Orders of norms that compute no powers.
_WITHOUT_POWERS = (0, 1, math.inf, -math.inf)


@register_decomposition(aten.linalg_vector_norm.default)
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
    # Squares of small gradients underflow in 16-bit floats, though their roots do not.
    return vector_norm(x.to(torch.float32), ord, dim, keepdim).to(x.dtype)


@register_decomposition(aten.native_layer_norm.default)
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


@register_decomposition(aten.native_group_norm_backward.default)
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
    """Subtract the mean first: in PyTorch's own, large sums cancel if the mean is large."""
    if x.numel() == 0:
        return NotImplemented
    grouped = batch, groups, channels // groups, size
    values, grad = (tensor.reshape(grouped).to(torch.float32) for tensor in (x, gradient))
    mean, scale = (
        tensor.reshape(batch, groups, 1, 1).to(torch.float32) for tensor in (mean, scale)
    )
    normed = (values - mean) * scale
    grad_x = grad_weight = grad_bias = None
    param_dtype = x.dtype if weight is None else weight.dtype
    if output_mask[1]:
        grad_weight = (grad * normed).sum([0, 3]).reshape(channels).to(param_dtype)
    if output_mask[2]:
        grad_bias = grad.sum([0, 3]).reshape(channels).to(param_dtype)
    if output_mask[0]:
        if weight is not None:
            grad = grad * weight.reshape(1, *grouped[1:3], 1).to(torch.float32)
        projection = (grad * normed).mean([2, 3], keepdim=True)
        centred = grad - grad.mean([2, 3], keepdim=True) - normed * projection
        grad_x = (centred * scale).reshape(x.shape).to(x.dtype)
    return grad_x, grad_weight, grad_bias


@register_decomposition(aten._weight_norm_interface.default)
def _weight_norm(
    direction: torch.Tensor, length: torch.Tensor, dim: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the directions scaled to the lengths, and the norms that the directions had."""
    widened = direction.to(torch.float32)
    norm = widened.square().sum(_dims_except(direction, dim), keepdim=True).sqrt()
    return (widened * (length / norm)).to(direction.dtype), norm


@register_decomposition(aten._weight_norm_interface_backward.default)
def _weight_norm_backward(
    gradient: torch.Tensor,
    direction: torch.Tensor,
    length: torch.Tensor,
    norm: torch.Tensor,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    widened, norm = gradient.to(torch.float32), norm.to(torch.float32)
    unit = direction / norm
    grad_length = (widened * unit).sum(_dims_except(direction, dim), keepdim=True)
    grad_direction = (widened - unit * grad_length) * (length / norm)
    return grad_direction.to(direction.dtype), grad_length.to(length.dtype)


def _dims_except(x: torch.Tensor, excluded: int) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != excluded % x.dim()]

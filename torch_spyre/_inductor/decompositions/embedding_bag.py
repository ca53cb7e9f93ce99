"""Decompositions of `embedding_bag`, which reduces the rows of each bag, and `embedding_renorm`.

Rows are scattered to their bags and combined there, in float32, rounded once.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)


def _bags_of(indices: torch.Tensor, offsets: torch.Tensor, bags: int) -> torch.Tensor:
    """Return the bag of each index: the last whose offset is not after it, as offsets ascend."""
    count = indices.shape[0]
    begins = torch.zeros(count + 1, dtype=torch.int32, device=indices.device)
    ones = torch.ones(bags, dtype=torch.int32, device=indices.device)
    begins = begins.scatter_add(0, offsets[:bags].to(torch.int32), ones)
    return begins[:count].cumsum(0, dtype=torch.int32) - 1


@register_decomposition(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def _embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    bags = offsets.shape[0] - include_last_offset
    if indices.numel() == 0 or bags == 0 or weight.numel() == 0:
        return NotImplemented
    bag = _bags_of(indices, offsets, bags)
    is_used = indices != padding_idx
    rows = aten.embedding(weight, indices).to(torch.float32)
    size = torch.zeros(bags, dtype=torch.int32, device=indices.device)
    size = size.scatter_add(0, bag, is_used.to(torch.int32))
    max_indices = indices.new_empty(0)
    if mode == _MAX:
        result, max_indices = _max_rows(rows, indices, bag, size, is_used)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.to(torch.float32).unsqueeze(-1)
        rows = torch.where(is_used.unsqueeze(-1), rows, 0.0)
        zeros = torch.zeros(bags, rows.shape[1], device=rows.device)
        result = zeros.scatter_add(0, _as_rows(bag, rows), rows)
    if mode == _MEAN:
        result = result / size.clamp(min=1).to(torch.float32).unsqueeze(-1)
    # On other devices than the CPU, PyTorch returns a size for each offset.
    sizes = size.to(indices.dtype)
    if include_last_offset:
        sizes = torch.cat([sizes, torch.zeros_like(sizes[:1])])
    return result.to(weight.dtype).contiguous(), bag.to(indices.dtype), sizes, max_indices


def _as_rows(index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return index.unsqueeze(-1).expand(rows.shape)


def _max_rows(
    rows: torch.Tensor,
    indices: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    is_used: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum of each bag and column, and its index: the first of equal elements."""
    count, shape = indices.shape[0], (size.shape[0], rows.shape[1])
    used_rows = torch.where(is_used.unsqueeze(-1), rows, -math.inf)
    lowest = torch.full(shape, -math.inf, device=rows.device)
    values = lowest.scatter_reduce(0, _as_rows(bag, rows), used_rows, "amax")
    is_max = (used_rows == aten.embedding(values, bag)) | (rows != rows)
    is_max = is_max & is_used.unsqueeze(-1)
    position = torch.arange(count, dtype=torch.int32, device=rows.device).unsqueeze(-1)
    last = torch.full(shape, count - 1, dtype=torch.int32, device=rows.device)
    first = last.scatter_reduce(
        0, _as_rows(bag, rows), torch.where(is_max, position, count - 1), "amin"
    )
    max_indices = aten.index(indices, [first])
    is_filled = (size > 0).unsqueeze(-1)
    return torch.where(is_filled, values, 0.0), torch.where(is_filled, max_indices, 0)


@register_decomposition(aten._embedding_bag_dense_backward.default)
def _dense_backward(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    max_indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> Any:
    if indices.numel() == 0 or gradient.numel() == 0:
        return NotImplemented
    widened = gradient.to(torch.float32)
    if mode == _MAX:
        # The gradient of an empty bag reaches no row.
        widened = torch.where(size[: widened.shape[0]].unsqueeze(-1) > 0, widened, 0.0)
        zeros = torch.zeros(num_weights, widened.shape[1], device=widened.device)
        return aten.scatter_add(zeros, 0, max_indices, widened).to(gradient.dtype)
    if mode == _MEAN:
        widened = widened / size[: widened.shape[0]].clamp(min=1).to(torch.float32).unsqueeze(-1)
    rows = aten.embedding(widened, bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(torch.float32).unsqueeze(-1)
    result = aten.embedding_dense_backward(
        rows, indices, num_weights, padding_idx, scale_grad_by_freq
    )
    return result.to(gradient.dtype)


@register_decomposition(aten._embedding_bag_backward.default)
def _backward(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    max_indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> Any:
    if sparse:
        return NotImplemented
    return _dense_backward(
        *(gradient, indices, bag, size, max_indices, num_weights, scale_grad_by_freq, mode),
        *(per_sample_weights, padding_idx),
    )


@register_decomposition(aten._embedding_bag_per_sample_weights_backward.default)
def _per_sample_weights_backward(
    gradient: torch.Tensor,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bag: torch.Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Any:
    if indices.numel() == 0 or weight.numel() == 0:
        return NotImplemented
    bag_gradients = aten.embedding(gradient, bag).to(torch.float32)
    result = (bag_gradients * aten.embedding(weight, indices).to(torch.float32)).sum(-1)
    return torch.where(indices == padding_idx, 0.0, result).to(gradient.dtype)


@register_decomposition(aten.embedding_renorm.default)
def _embedding_renorm(
    weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> Any:
    """Return the weight with the used rows scaled down to at most `max_norm`."""
    if indices.numel() == 0 or weight.numel() == 0:
        return weight.clone()
    unused = torch.zeros(weight.shape[0], dtype=torch.int32, device=weight.device)
    is_used = (unused.scatter(0, indices.reshape(-1), 1) > 0).unsqueeze(-1)
    widened = weight.to(torch.float32)
    norm = torch.linalg.vector_norm(widened, norm_type, -1, keepdim=True)
    scaled = (widened * (max_norm / (norm + 1e-7))).to(weight.dtype)
    return torch.where(is_used & (norm > max_norm), scaled, weight)

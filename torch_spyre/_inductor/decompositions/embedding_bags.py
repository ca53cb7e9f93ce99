"""Decompositions of `embedding_bag`, whose results are folds of the rows that each bag has, and
of the shortening of rows that embeddings may ask for.

Sums are products with the flags of who is where, in float32, which halves are rounded from once.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.resampling import times

aten = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)


def _bags_of(indices: torch.Tensor, offsets: torch.Tensor, bags: int) -> torch.Tensor:
    """The bag of each index: the last that begins there or before, as offsets never go back."""
    place = torch.arange(indices.shape[0], dtype=torch.int32, device=indices.device)
    begun = offsets[:bags].to(torch.int32) <= place.unsqueeze(-1)
    return begun.to(torch.int32).sum(-1) - 1


def _members(bag: torch.Tensor, bags: int, counts: torch.Tensor) -> torch.Tensor:
    """Which indices each bag has that count, a row for a bag."""
    number = torch.arange(bags, dtype=torch.int32, device=bag.device)
    return (bag == number.unsqueeze(-1)) & counts


@decomposes(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
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
    member = _members(bag, bags, indices != padding_idx)
    rows = aten.embedding(weight, indices).to(torch.float32)
    size = member.to(torch.int32).sum(-1)
    largest = indices.new_empty(0)
    if mode == _MAX:
        result, largest = _largest_rows(rows, indices, member)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.to(torch.float32).unsqueeze(-1)
        result = times(rows, 0, member.to(torch.float32).t())
    if mode == _MEAN:
        result = result / size.clamp(min=1).to(torch.float32).unsqueeze(-1)
    # What PyTorch gives for other devices than the CPU has a size for each offset.
    sizes = size.to(indices.dtype)
    if include_last_offset:
        sizes = torch.cat([sizes, torch.zeros_like(sizes[:1])])
    return result.to(weight.dtype).contiguous(), bag.to(indices.dtype), sizes, largest


def _largest_rows(
    rows: torch.Tensor, indices: torch.Tensor, member: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each bag and column the largest, and its index: the first, of equal ones."""
    among = member.unsqueeze(-1)
    values = torch.where(among, rows, -math.inf).amax(1)
    found = among & ((rows == values.unsqueeze(1)) | (rows != rows))
    count = indices.shape[0]
    place = torch.arange(count, dtype=torch.int32, device=rows.device).unsqueeze(-1)
    first = torch.where(found, place, count - 1).amin(1)
    whose = aten.index(indices, [first])
    filled = member.any(-1, keepdim=True)
    return torch.where(filled, values, 0.0), torch.where(filled, whose, 0)


@decomposes(aten._embedding_bag_dense_backward.default)
def _embedding_bag_backward(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    largest: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> Any:
    if indices.numel() == 0 or gradient.numel() == 0:
        return NotImplemented
    wide = gradient.to(torch.float32)
    if mode == _MAX:
        # Bags without any index have none to give to.
        wide = torch.where(size[: wide.shape[0]].unsqueeze(-1) > 0, wide, 0.0)
        nothing = torch.zeros(num_weights, wide.shape[1], device=wide.device)
        return aten.scatter_add(nothing, 0, largest, wide).to(gradient.dtype)
    if mode == _MEAN:
        wide = wide / size[: wide.shape[0]].clamp(min=1).to(torch.float32).unsqueeze(-1)
    rows = aten.embedding(wide, bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(torch.float32).unsqueeze(-1)
    found = aten.embedding_dense_backward(
        rows, indices, num_weights, padding_idx, scale_grad_by_freq
    )
    return found.to(gradient.dtype)


@decomposes(aten._embedding_bag_backward.default)
def _embedding_bag_backward_of_any_kind(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bag: torch.Tensor,
    size: torch.Tensor,
    largest: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> Any:
    if sparse:
        return NotImplemented
    return _embedding_bag_backward(
        *(gradient, indices, bag, size, largest, num_weights, scale_grad_by_freq, mode),
        *(per_sample_weights, padding_idx),
    )


@decomposes(aten._embedding_bag_per_sample_weights_backward.default)
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
    gone = aten.embedding(gradient, bag).to(torch.float32)
    found = (gone * aten.embedding(weight, indices).to(torch.float32)).sum(-1)
    return torch.where(indices == padding_idx, 0.0, found).to(gradient.dtype)


@decomposes(aten.embedding_renorm.default)
def _embedding_renorm(
    weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> Any:
    """Rows that are used and longer than allowed, shortened."""
    if indices.numel() == 0 or weight.numel() == 0:
        return weight.clone()
    row = torch.arange(weight.shape[0], dtype=torch.int32, device=weight.device)
    used = (indices.reshape(-1, 1).to(torch.int32) == row).any(0).unsqueeze(-1)
    wide = weight.to(torch.float32)
    norm = torch.linalg.vector_norm(wide, norm_type, -1, keepdim=True)
    shorter = (wide * (max_norm / (norm + 1e-7))).to(weight.dtype)
    return torch.where(used & (norm > max_norm), shorter, weight)

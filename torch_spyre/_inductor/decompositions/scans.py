"""Decompositions of scans: `cumsum`, `cumprod`, `cummax`, `cummin` and `logcumsumexp`.

A row is split into blocks. Within a block, each result reduces all elements up to its own, which
takes quadratic time but no memory. The results of whole blocks are scanned recursively and combined
with the elements of the blocks that follow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten
_BLOCK = 64


@dataclass(frozen=True)
class _Reduction:
    """An associative operation: its identity, its reduction along a dim, and its binary form."""

    identity: float
    reduce: Callable[..., torch.Tensor]
    combine: Callable[..., torch.Tensor]


_SUM = _Reduction(0, torch.sum, torch.add)
_PRODUCT = _Reduction(1, torch.prod, torch.mul)
_LOG_SUM = _Reduction(
    -math.inf, lambda rows, dim, dtype: torch.logsumexp(rows, dim), torch.logaddexp
)


@register_decomposition(aten.cumsum.default)
def cumsum(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scan_dim(x, dim, dtype, _SUM)


@register_decomposition(aten.cumprod.default)
def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scan_dim(x, dim, dtype, _PRODUCT)


def _scan_extremes(x: torch.Tensor, dim: int, is_max: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cumulative maximum or minimum, and the index of its last occurrence."""
    if x.dim() == 0 or x.numel() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    rows = x.movedim(dim, -1)
    elements = rows.to(torch.int32) if x.dtype is torch.bool else rows
    values = _scan(elements, _extreme(elements.dtype, is_max))
    is_extreme = elements == values
    if x.is_floating_point():
        is_extreme = is_extreme | torch.isnan(elements)
    position = torch.arange(rows.shape[-1], device=x.device)
    indices = _scan(torch.where(is_extreme, position, 0), _extreme(torch.int64, True))
    return (
        values.to(x.dtype).movedim(-1, dim).contiguous(),
        indices.movedim(-1, dim).contiguous(),
    )


def _extreme(dtype: torch.dtype, is_max: bool) -> _Reduction:
    """Return the reduction to the maximum or the minimum."""
    if dtype.is_floating_point:
        bound = -math.inf if is_max else math.inf
    else:
        # The card stores int64 in 32 bits.
        limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
        bound = limits.min if is_max else limits.max
    reduce = torch.amax if is_max else torch.amin
    return _Reduction(
        bound,
        lambda rows, dim, dtype: reduce(rows, dim),
        torch.maximum if is_max else torch.minimum,
    )


@register_decomposition(aten.cummax.default)
def _cummax(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _scan_extremes(x, dim, is_max=True)


@register_decomposition(aten.cummin.default)
def _cummin(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _scan_extremes(x, dim, is_max=False)


@register_decomposition(aten.logcumsumexp.default)
def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    return _scan_dim(x, dim, x.dtype, _LOG_SUM)


def _scan_dim(
    x: torch.Tensor, dim: int, dtype: torch.dtype | None, reduction: _Reduction
) -> torch.Tensor:
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    x = x.to(dtype)
    if x.dim() == 0 or x.numel() == 0 or x.shape[dim] == 1:
        return x.clone()
    # 16-bit floats are rounded once, at the end.
    rows = x.movedim(dim, -1).to(torch.float32 if dtype in HALF_DTYPES else dtype)
    return _scan(rows, reduction).to(dtype).movedim(-1, dim).contiguous()


def _scan(rows: torch.Tensor, reduction: _Reduction) -> torch.Tensor:
    length = rows.shape[-1]
    if length <= _BLOCK:
        return _scan_block(rows, reduction)
    blocks = -(-length // _BLOCK)
    padded = aten.constant_pad_nd(rows, [0, blocks * _BLOCK - length], reduction.identity)
    within_blocks = _scan_block(padded.reshape(*rows.shape[:-1], blocks, _BLOCK), reduction)
    block_results = _scan(within_blocks[..., -1], reduction)
    before = aten.constant_pad_nd(block_results[..., :-1], [1, 0], reduction.identity)
    combined = reduction.combine(within_blocks, before.unsqueeze(-1))
    # A copy: a view that ends within the last block is not a rectangle of the blocks.
    return combined.reshape(*rows.shape[:-1], blocks * _BLOCK)[..., :length].clone()


def _scan_block(rows: torch.Tensor, reduction: _Reduction) -> torch.Tensor:
    position = torch.arange(rows.shape[-1], device=rows.device)
    is_reduced = position <= position.unsqueeze(-1)
    identity = torch.full((), reduction.identity, dtype=rows.dtype, device=rows.device)
    return reduction.reduce(
        torch.where(is_reduced, rows.unsqueeze(-2), identity), -1, dtype=rows.dtype
    )

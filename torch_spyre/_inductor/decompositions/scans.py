"""Decompositions of scans: each element with all before it.

A row is cut into blocks. Within a block every element folds those before it, which costs the square
of the block's length and no memory; the results of whole blocks are scanned in turn, and joined to
what follows them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten
_BLOCK = 64


@dataclass(frozen=True)
class _Fold:
    neutral: float
    along: Callable[..., torch.Tensor]
    joined: Callable[..., torch.Tensor]


_SUM = _Fold(0, torch.sum, torch.add)
_PRODUCT = _Fold(1, torch.prod, torch.mul)
_LOG_SUM = _Fold(-math.inf, lambda rows, dim, dtype: torch.logsumexp(rows, dim), torch.logaddexp)


@decomposes(aten.cumsum.default)
def cumsum(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scanned(x, dim, dtype, _SUM)


@decomposes(aten.cumprod.default)
def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scanned(x, dim, dtype, _PRODUCT)


def _extremes(x: torch.Tensor, dim: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The extreme of all so far, and where it was met last."""
    if x.dim() == 0 or x.numel() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    rows = x.movedim(dim, -1)
    numbers = rows.to(torch.int32) if x.dtype is torch.bool else rows
    values = _scan(numbers, _extreme(numbers.dtype, largest))
    met = numbers == values
    if x.is_floating_point():
        met = met | torch.isnan(numbers)
    place = torch.arange(rows.shape[-1], device=x.device)
    indices = _scan(torch.where(met, place, 0), _extreme(torch.int64, True))
    return (
        values.to(x.dtype).movedim(-1, dim).contiguous(),
        indices.movedim(-1, dim).contiguous(),
    )


def _extreme(dtype: torch.dtype, largest: bool) -> _Fold:
    if dtype.is_floating_point:
        bound = -math.inf if largest else math.inf
    else:
        # Integers of 64 bits have 32 on the card.
        limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
        bound = limits.min if largest else limits.max
    fold = torch.amax if largest else torch.amin
    return _Fold(
        bound,
        lambda rows, dim, dtype: fold(rows, dim),
        torch.maximum if largest else torch.minimum,
    )


@decomposes(aten.cummax.default)
def _cummax(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _extremes(x, dim, largest=True)


@decomposes(aten.cummin.default)
def _cummin(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _extremes(x, dim, largest=False)


@decomposes(aten.logcumsumexp.default)
def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    return _scanned(x, dim, x.dtype, _LOG_SUM)


def _scanned(x: torch.Tensor, dim: int, dtype: torch.dtype | None, fold: _Fold) -> torch.Tensor:
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    x = x.to(dtype)
    if x.dim() == 0 or x.numel() == 0 or x.shape[dim] == 1:
        return x.clone()
    # Halves are rounded once, at the end.
    rows = x.movedim(dim, -1).to(torch.float32 if dtype in HALF_DTYPES else dtype)
    return _scan(rows, fold).to(dtype).movedim(-1, dim).contiguous()


def _scan(rows: torch.Tensor, fold: _Fold) -> torch.Tensor:
    length = rows.shape[-1]
    if length <= _BLOCK:
        return _within(rows, fold)
    blocks = -(-length // _BLOCK)
    padded = aten.constant_pad_nd(rows, [0, blocks * _BLOCK - length], fold.neutral)
    parts = _within(padded.reshape(*rows.shape[:-1], blocks, _BLOCK), fold)
    whole = _scan(parts[..., -1], fold)
    before = aten.constant_pad_nd(whole[..., :-1], [1, 0], fold.neutral)
    joined = fold.joined(parts, before.unsqueeze(-1))
    # A copy: of one row this would be a view of whole blocks, which is no rectangle of them.
    return joined.reshape(*rows.shape[:-1], blocks * _BLOCK)[..., :length].clone()


def _within(rows: torch.Tensor, fold: _Fold) -> torch.Tensor:
    length = rows.shape[-1]
    place = torch.arange(length, device=rows.device)
    counts = place <= place.unsqueeze(-1)
    neutral = torch.full((), fold.neutral, dtype=rows.dtype, device=rows.device)
    return fold.along(torch.where(counts, rows.unsqueeze(-2), neutral), -1, dtype=rows.dtype)

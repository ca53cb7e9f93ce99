"""Decompositions of scans: each element with all before it.

A row is cut into blocks. Within a block every element folds those before it, which costs the square
of the block's length and no memory; the results of whole blocks are scanned in turn, and joined to
what follows them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from torch_spyre._inductor.decompositions import decomposes
from torch_spyre._inductor.op_functions import HALVES

aten = torch.ops.aten
_BLOCK = 64


@dataclass(frozen=True)
class _Fold:
    neutral: int
    along: Callable[..., torch.Tensor]
    joined: Callable[..., torch.Tensor]


_SUM = _Fold(0, torch.sum, torch.add)
_PRODUCT = _Fold(1, torch.prod, torch.mul)


@decomposes(aten.cumsum.default)
def cumsum(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scanned(x, dim, dtype, _SUM)


@decomposes(aten.cumprod.default)
def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scanned(x, dim, dtype, _PRODUCT)


def _scanned(x: torch.Tensor, dim: int, dtype: torch.dtype | None, fold: _Fold) -> torch.Tensor:
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    x = x.to(dtype)
    if x.dim() == 0 or x.numel() == 0 or x.shape[dim] == 1:
        return x.clone()
    # Halves are rounded once, at the end.
    rows = x.movedim(dim, -1).to(torch.float32 if dtype in HALVES else dtype)
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
    return joined.reshape(*rows.shape[:-1], blocks * _BLOCK)[..., :length]


def _within(rows: torch.Tensor, fold: _Fold) -> torch.Tensor:
    length = rows.shape[-1]
    place = torch.arange(length, device=rows.device)
    counts = place <= place.unsqueeze(-1)
    neutral = torch.full((), fold.neutral, dtype=rows.dtype, device=rows.device)
    return fold.along(torch.where(counts, rows.unsqueeze(-2), neutral), -1, dtype=rows.dtype)

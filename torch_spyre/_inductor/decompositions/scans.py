"""Decompositions of `cumsum`, `cumprod`, `cummax`, `cummin` and `logcumsumexp` to `spyre::scan`.

The kernel of a scan divides over cores the dims that are not scanned. A long scan of few rows is
split into blocks: they are scanned at once, then their totals, which are combined with the elements
of the blocks that follow.
"""

from collections.abc import Callable, Mapping
from math import prod

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import HALF_DTYPES
from torch_spyre.ops.scan import OVERLOAD as SCAN

aten = torch.ops.aten

# The function that combines two elements, and the value that it ignores.
_COMBINES: Mapping[str, tuple[Callable[..., torch.Tensor], float]] = {
    "add": (torch.add, 0),
    "mul": (torch.mul, 1),
    "logaddexp": (torch.logaddexp, float("-inf")),
}
_SCANNED_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64)
# Blocks of a long scan, and the shortest scan that is split into blocks.
_BLOCKS = 32
_MIN_LENGTH = 16384
# The most elements in a stick of a dtype that is scanned.
_MAX_STICK = 64


@register_decomposition(aten.cumsum.default)
def cumsum(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scan_in_dtype(x, dim, dtype, "add")


@register_decomposition(aten.cumprod.default)
def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _scan_in_dtype(x, dim, dtype, "mul")


@register_decomposition(aten.logcumsumexp.default)
def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    return _scan_in_dtype(x, dim, x.dtype, "logaddexp")


def _scan_extremes(x: torch.Tensor, dim: int, is_max: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cumulative maximum or minimum, and the index of its last occurrence."""
    if x.dim() == 0 or x.numel() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    elements = x if x.dtype in _SCANNED_DTYPES else x.to(torch.int32)
    values = _scan(elements, dim, "max" if is_max else "min", elements.dtype)
    is_extreme = elements == values
    if x.is_floating_point():
        is_extreme = is_extreme | torch.isnan(elements)
    shape = [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    position = torch.arange(x.shape[dim], device=x.device).reshape(shape)
    indices = _scan(torch.where(is_extreme, position, 0), dim, "max", torch.int64)
    return values.to(x.dtype), indices


@register_decomposition(aten.cummax.default)
def _cummax(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _scan_extremes(x, dim, is_max=True)


@register_decomposition(aten.cummin.default)
def _cummin(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _scan_extremes(x, dim, is_max=False)


def _scan_in_dtype(
    x: torch.Tensor, dim: int, dtype: torch.dtype | None, combine: str
) -> torch.Tensor:
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    if x.dim() == 0 or x.numel() == 0:
        return x.to(dtype, copy=True)
    # Rounding to a narrower dtype comes first, as in PyTorch; to a wider one, in the kernel.
    is_widened = x.dtype in HALF_DTYPES and dtype is torch.float32
    x = x if is_widened else x.to(dtype)
    if dtype not in _SCANNED_DTYPES:
        # The low bits of integers do not depend on the others.
        return _scan(x.to(torch.int32), dim, combine, torch.int32).to(dtype)
    return _scan(x, dim, combine, dtype)


def _scan(x: torch.Tensor, dim: int, combine: str, dtype: torch.dtype) -> torch.Tensor:
    if x.shape[dim] == 1:
        return x.to(dtype, copy=True)
    dim %= x.dim()
    outer, length, inner = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])
    flat = x.reshape(outer, length, inner)
    if length < _MIN_LENGTH or combine not in _COMBINES or outer * inner >= _BLOCKS:
        result: torch.Tensor = SCAN(flat, combine, dtype)
    else:
        result = _scan_blocks(flat, combine, dtype)
    return result.reshape(x.shape)


def _scan_blocks(x: torch.Tensor, combine: str, dtype: torch.dtype) -> torch.Tensor:
    """Return a scan of the middle dim that is computed in blocks."""
    function, identity = _COMBINES[combine]
    outer, length, inner = x.shape
    # Blocks begin with a stick, in any dtype.
    size = -(-length // (_BLOCKS * _MAX_STICK)) * _MAX_STICK
    padded = aten.constant_pad_nd(x, [0, 0, 0, _BLOCKS * size - length], identity)
    # 16-bit floats are rounded once, at the end.
    wide = torch.float32 if dtype in HALF_DTYPES else dtype
    within = SCAN(padded.reshape(outer * _BLOCKS, size, inner), combine, wide)
    within = within.reshape(outer, _BLOCKS, size, inner)
    totals = SCAN(within[:, :, -1].clone(), combine, wide)
    before = aten.constant_pad_nd(totals[:, :-1], [0, 0, 1, 0], identity)
    combined = function(within, before.unsqueeze(2)).to(dtype)
    # A copy: a view that ends within the last block is not a rectangle of the blocks.
    return combined.reshape(outer, _BLOCKS * size, inner)[:, :length].clone()

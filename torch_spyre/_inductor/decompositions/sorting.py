"""Decompositions of `sort`, `topk`, medians, `searchsorted`, histograms and `bincount`.

All orders come from `spyre::sort`, whose kernel sorts rows in the scratchpads of one or several
cores, or selects their first elements. Blocks of rows that are too long for all scratchpads are
sorted and then merged in pairs, as a bitonic network compares elements.
"""

import math
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.work_division.sort_blocks import block_size, num_blocks
from torch_spyre.cards import load_card, usable_cores
from torch_spyre.ops.sort import OVERLOAD as SORT

aten = torch.ops.aten
# The longest columns that are sorted without a transposition: all columns of a stick at once.
_MAX_COLUMN = 512
# Columns of whole sticks, in any dtype.
_STICK = 128
# The most first elements of a row that are selected without sorting it.
_MAX_KEPT = 1 << 12
# The largest mask, which is in memory as eager ops run one by one.
_MAX_MASK = 1 << 24

Pair = tuple[torch.Tensor, torch.Tensor]


@register_decomposition(aten.sort.default)
def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Pair:
    result: Pair = _sort_stably(x, stable=True, dim=dim, descending=descending)
    return result


@register_decomposition(aten.sort.stable)
def _sort_stably(
    x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Pair:
    return _first(x, 1 if x.dim() == 0 else x.shape[dim], dim, descending)


def _first(x: torch.Tensor, kept: int, dim: int, descending: bool) -> Pair:
    """Return the first elements along a dim in their order, and their indices.

    Equal elements stay in order; NaNs are larger than all other elements.
    """
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim %= x.dim()
    if kept == 0 or x.numel() == 0 or x.shape[dim] == 1:
        first = x.narrow(dim, 0, kept).clone()
        return first, torch.zeros_like(first, dtype=torch.int64)
    outer, length, inner = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])
    # A result of one element has no sticks of its own.
    selected = max(kept, 2)
    if 2 * selected > length or selected > _MAX_KEPT:
        selected = length
    if _is_column_sort(outer, length, inner):
        columns = SORT(x.reshape(outer, length, inner), None, selected, descending)
        shape = (*x.shape[:dim], kept, *x.shape[dim + 1 :])
        values, indices = (_narrowed(result, kept).reshape(shape) for result in columns)
        return values, indices
    rows = x.movedim(dim, -1).reshape(-1, length)
    other_dims = (*x.shape[:dim], *x.shape[dim + 1 :])
    values, indices = (
        _narrowed(result, kept).reshape(*other_dims, kept).movedim(-1, dim).contiguous()
        for result in _sort_rows(rows, selected, descending)
    )
    return values, indices


def _narrowed(x: torch.Tensor, kept: int) -> torch.Tensor:
    """Return the first elements along dim 1, copied if they are not all."""
    return x if x.shape[1] == kept else x.narrow(1, 0, kept).clone()


def _is_column_sort(outer: int, length: int, inner: int) -> bool:
    """Return whether columns are sorted as they are, in parallel on all cores."""
    is_short = length <= _MAX_COLUMN and inner % _STICK == 0
    return is_short and outer * inner >= _STICK * usable_cores(load_card())


def _sort_rows(rows: torch.Tensor, kept: int, descending: bool) -> Pair:
    count, length = rows.shape
    cores = usable_cores(load_card())
    blocks = num_blocks(count, length, kept, cores)
    if blocks > cores:
        # A core holds the two blocks that it merges, and their result.
        return _merge_blocks(rows, descending, 2 * blocks)
    values, indices = SORT(rows.unsqueeze(-1), None, kept, descending)
    return values.squeeze(-1), indices.squeeze(-1)


def _last(dtype: torch.dtype, descending: bool) -> float:
    """Return the last value of a dtype in the order."""
    if dtype.is_floating_point:
        return -math.inf if descending else math.nan
    if dtype is torch.bool:
        return not descending
    # The card stores int64 in 32 bits.
    limits = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    return limits.min if descending else limits.max


def _merge_blocks(rows: torch.Tensor, descending: bool, blocks: int) -> Pair:
    """Sort rows: sort blocks of them, and merge the blocks in the pairs of a bitonic network."""
    count, length = rows.shape
    size = block_size(length, blocks)
    padding = [0, blocks * size - length]
    padded = aten.constant_pad_nd(rows, padding, _last(rows.dtype, descending))
    positions = torch.arange(blocks * size, device=rows.device).expand(count, -1)
    parts = (part.reshape(-1, size, 1) for part in (padded, positions))
    values, indices = SORT(*parts, size, descending)
    width = 2
    while width <= blocks:
        distance, is_mirrored = width // 2, True
        while distance:
            pairs = (_pairs(part, size, distance, is_mirrored) for part in (values, indices))
            values, indices = (
                _from_pairs(part, size, distance, is_mirrored)
                for part in SORT(*pairs, 2 * size, descending, size)
            )
            distance, is_mirrored = distance // 2, False
        width *= 2
    values, indices = (
        part.reshape(count, -1).narrow(1, 0, length).clone() for part in (values, indices)
    )
    return values, indices


def _pairs(x: torch.Tensor, size: int, distance: int, is_mirrored: bool) -> torch.Tensor:
    """Return the pairs of blocks at a distance; mirrored, the first and the last of a group."""
    groups = x.reshape(-1, 2, distance, size)
    if is_mirrored:
        groups = torch.stack([groups[:, 0], groups[:, 1].flip(1)], 1)
    return groups.transpose(1, 2).reshape(-1, 2 * size, 1)


def _from_pairs(pairs: torch.Tensor, size: int, distance: int, is_mirrored: bool) -> torch.Tensor:
    """Return the blocks of pairs where they were."""
    groups = pairs.reshape(-1, distance, 2, size).transpose(1, 2)
    if is_mirrored:
        groups = torch.stack([groups[:, 0], groups[:, 1].flip(1)], 1)
    return groups


@register_decomposition(aten.kthvalue.default)
def _kthvalue(
    x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    length = 1 if x.dim() == 0 else x.shape[dim]
    torch._check(1 <= k <= length, lambda: "kthvalue(): selected number k out of range")
    return _select_sorted(x, k - 1, dim, keepdim)


def _select_sorted(x: torch.Tensor, rank: int, dim: int, keepdim: bool) -> Pair:
    """Return the element with a rank along a dim, and its index."""
    values, indices = _first(x, rank + 1, dim, descending=False)
    if x.dim() == 0:
        return values, indices
    values, indices = values.select(dim, rank).clone(), indices.select(dim, rank).clone()
    return (values.unsqueeze(dim), indices.unsqueeze(dim)) if keepdim else (values, indices)


@register_decomposition(aten.median.dim)
def _median(
    x: torch.Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    length = 1 if x.dim() == 0 else x.shape[dim]
    values, indices = _select_sorted(x, (length - 1) // 2, dim, keepdim)
    if not x.is_floating_point() or x.dim() == 0:
        return values, indices
    # The median of a row with NaNs is its first NaN.
    is_nan = torch.isnan(x)
    has_nan, first_nan = is_nan.any(dim, keepdim), is_nan.to(torch.int32).argmax(dim, keepdim)
    return torch.where(has_nan, math.nan, values), torch.where(has_nan, first_nan, indices)


@register_decomposition(aten.median.default)
def _median_of_all(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        # NaN, or the integer that a conversion of NaN gives.
        return torch.full((), math.nan, device=x.device).to(x.dtype)
    median: torch.Tensor = _median(x.reshape(-1), 0)[0]
    return median


@register_decomposition(aten.nanmedian.dim)
def _nanmedian(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.is_floating_point() or x.dim() == 0 or x.shape[dim] == 0:
        return _median(x, dim, keepdim)
    values, indices = _sort(x, dim)
    # NaNs are sorted last; the median of a row of NaNs is the first of them.
    count = (~torch.isnan(x)).to(torch.int32).sum(dim, keepdim=True)
    rank = torch.div((count - 1).clamp(min=0), 2, rounding_mode="floor")
    values, indices = values.gather(dim, rank), indices.gather(dim, rank)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@register_decomposition(aten.nanmedian.default)
def _nanmedian_of_all(x: torch.Tensor) -> Any:
    if x.numel() == 0:
        return _median_of_all(x)
    return _nanmedian(x.reshape(-1), 0)[0]


@register_decomposition(aten.topk.default)
def _topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair:
    return _first(x, k if x.dim() else 1, dim, largest)


@register_decomposition(aten.searchsorted.Tensor)
def _searchsorted(
    sequence: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    bounds = sequence.unsqueeze(-2) if sequence.dim() > 1 else sequence
    values = x.unsqueeze(-1)
    # Negated, so that a NaN is after all bounds, as in a binary search.
    is_after = bounds > values if right or side == "right" else bounds >= values
    dtype = torch.int32 if out_int32 else torch.int64
    return (~is_after).to(torch.int32).sum(-1).to(dtype)


@register_decomposition(aten.searchsorted.Scalar)
def _searchsorted_scalar(sequence: torch.Tensor, x: float, **options: Any) -> Any:
    value = torch.full((), x, dtype=sequence.dtype, device=sequence.device)
    return _searchsorted(sequence, value, **options)


@register_decomposition(aten.bucketize.Tensor)
def _bucketize(
    x: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> Any:
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


@register_decomposition(aten.histc.default)
def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    values = x.flatten().to(torch.float32)
    low, high = (
        torch.full((), bound, dtype=torch.float32, device=x.device) for bound in (min, max)
    )
    if min == max and x.numel():
        low, high = values.amin(), values.amax()
    is_empty = low == high
    low, high = torch.where(is_empty, low - 1, low), torch.where(is_empty, high + 1, high)
    bin = ((values - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    is_inside = (values >= low) & (values <= high)
    is_in_bin = (bin == torch.arange(bins, device=x.device)[:, None]) & is_inside
    counts = is_in_bin.to(torch.int32).sum(-1).to(x.dtype)
    # The CPU raises if the range is not finite; a kernel can only return NaN.
    return torch.where((low - high).isfinite(), counts, math.nan)


@register_decomposition(aten.bincount.default)
def _bincount(
    x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    if x.dim() != 1 or x.dtype.is_floating_point:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if x.dtype is torch.bool:
        raise NotImplementedError("bincount: not implemented for 'Bool'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if x.numel() and x.amin().item() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights is not None and weights.dtype is not torch.float32:
        raise RuntimeError(
            f"bincount with weights of {weights.dtype} returns float64: the Spyre backend does not "
            "support dtype Double (float64); convert the weights to torch.float32 first"
        )
    bins = max(minlength, int(x.amax().item()) + 1 if x.numel() else 0)
    if x.numel() == 0 or bins == 0:
        return x.new_zeros(bins, dtype=torch.int64)
    return _count(x, bins) if weights is None else _sum_weights(x, weights, bins)


def _count(x: torch.Tensor, bins: int) -> torch.Tensor:
    """Return the count of each value, split into two digits.

    The counts of all pairs of digits are a matmul of the one-hot digits, exact in float32.
    """
    base = 1 << (math.isqrt(bins - 1).bit_length() if bins > 1 else 0)
    high, low = (torch.arange(n, device=x.device) for n in (-(-bins // base), base))
    total = x.new_zeros(bins, dtype=torch.int64)
    for chunk in x.split(max(1, _MAX_MASK // (high.numel() + base))):
        high_digits = (chunk // base == high[:, None]).to(torch.float32)
        low_digits = (chunk[:, None] % base == low).to(torch.float32)
        total = total + torch.mm(high_digits, low_digits).to(torch.int64).flatten()[:bins]
    return total


def _sum_weights(x: torch.Tensor, weights: torch.Tensor, bins: int) -> torch.Tensor:
    # Not a matmul: in that, a weight that is not finite would reach all bins.
    sums = []
    for chunk in torch.arange(bins, device=x.device).split(max(1, _MAX_MASK // x.numel())):
        sums.append(torch.where(x == chunk[:, None], weights, 0).sum(-1))
    return torch.cat(sums)

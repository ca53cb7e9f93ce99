"""Decompositions of `sort`, `topk`, medians, `searchsorted`, histograms and `bincount`.

The rank of an element is the number of elements before it: a sum over pairs, which takes quadratic
time but no memory. Rows longer than `_MAX_RANKED` are not sorted on the card. `topk`
of a long row selects the first k of each block, then the first k of these.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten
# The longest row whose pairs of elements are compared.
_MAX_RANKED = 1 << 14
_BLOCK = 1024
# The largest mask, which is in memory as eager ops run one by one.
_MAX_MASK = 1 << 24


@register_decomposition(aten.sort.default)
def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    return _sort_stably(x, stable=True, dim=dim, descending=descending)


@register_decomposition(aten.sort.stable)
def _sort_stably(
    x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() == 0 or x.numel() == 0 or x.shape[dim] == 1:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    rows = x.movedim(dim, -1)
    if rows.shape[-1] > _MAX_RANKED:
        raise UnsupportedError(f"sorting rows of {rows.shape[-1]} elements (at most {_MAX_RANKED})")
    ranks = _ranks(rows, descending)
    position = torch.arange(rows.shape[-1], device=x.device).expand(rows.shape)
    indices = torch.zeros_like(ranks).scatter(-1, ranks, position)
    values = rows.gather(-1, indices)
    return values.movedim(-1, dim).contiguous(), indices.movedim(-1, dim).contiguous()


def _ranks(rows: torch.Tensor, descending: bool) -> torch.Tensor:
    """Return the rank of each element in its row; equal elements stay in order."""
    if rows.dtype is torch.bool:
        rows = rows.to(torch.int32)
    left, right = rows.unsqueeze(-2), rows.unsqueeze(-1)
    is_before = left > right if descending else left < right
    is_equal = left == right
    if rows.is_floating_point():
        # NaNs are larger than all other values.
        left_is_nan, right_is_nan = torch.isnan(left), torch.isnan(right)
        first, second = (left_is_nan, right_is_nan) if descending else (right_is_nan, left_is_nan)
        is_before = is_before | (first & ~second)
        is_equal = is_equal | (left_is_nan & right_is_nan)
    position = torch.arange(rows.shape[-1], device=rows.device)
    is_earlier = position < position.unsqueeze(-1)
    return (is_before | (is_equal & is_earlier)).to(torch.int32).sum(-1)


@register_decomposition(aten.kthvalue.default)
def _kthvalue(
    x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    length = 1 if x.dim() == 0 else x.shape[dim]
    torch._check(1 <= k <= length, lambda: "kthvalue(): selected number k out of range")
    return _select_sorted(x, k - 1, dim, keepdim)


def _select_sorted(
    x: torch.Tensor, rank: int, dim: int, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the element with a rank along a dim, and its index."""
    values, indices = _sort(x, dim)
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
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if k == 0 or x.numel() == 0:
        size = [k if axis == dim % x.dim() else n for axis, n in enumerate(x.shape)]
        return x.new_empty(size), x.new_empty(size, dtype=torch.int64)
    values, indices = _topk_of_rows(x.movedim(dim, -1), k, largest)
    return values.movedim(-1, dim).contiguous(), indices.movedim(-1, dim).contiguous()


def _topk_of_rows(rows: torch.Tensor, k: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    length = rows.shape[-1]
    if length <= _BLOCK or 2 * k > _BLOCK:
        if length > _MAX_RANKED:
            raise UnsupportedError(
                f"topk with k={k} > {_BLOCK // 2} of {length} elements (at most {_MAX_RANKED})"
            )
        return _topk_of_block(rows, k, largest)
    num_blocks = length // _BLOCK
    blocks = rows[..., : num_blocks * _BLOCK].reshape(*rows.shape[:-1], num_blocks, _BLOCK)
    values, indices = _topk_of_block(blocks, k, largest)
    indices = indices + _BLOCK * torch.arange(num_blocks, device=rows.device).unsqueeze(-1)
    candidates, candidate_indices = [values.flatten(-2)], [indices.flatten(-2)]
    if length % _BLOCK:
        tail = rows[..., num_blocks * _BLOCK :]
        values, indices = _topk_of_block(tail, min(k, tail.shape[-1]), largest)
        candidates.append(values)
        candidate_indices.append(indices + num_blocks * _BLOCK)
    values, positions = _topk_of_rows(torch.cat(candidates, -1), k, largest)
    return values, torch.cat(candidate_indices, -1).gather(-1, positions)


def _topk_of_block(rows: torch.Tensor, k: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    length = rows.shape[-1]
    is_kth = _ranks(rows, largest).unsqueeze(-2) == torch.arange(k, device=rows.device)[:, None]
    position = torch.arange(length, device=rows.device)
    indices = torch.where(is_kth, position, 0).sum(-1)
    if rows.dtype is torch.bool:
        return (is_kth & rows.unsqueeze(-2)).any(-1), indices
    # The maximum over one element, all others being masked to the lowest value.
    values = torch.where(is_kth, rows.unsqueeze(-2), _lowest(rows)).amax(-1)
    return values, indices


def _lowest(x: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        return torch.full((), -math.inf, dtype=x.dtype, device=x.device)
    # The card stores int64 in 32 bits.
    lowest = torch.iinfo(torch.int32 if x.dtype is torch.int64 else x.dtype).min
    return torch.full((), lowest, dtype=x.dtype, device=x.device)


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

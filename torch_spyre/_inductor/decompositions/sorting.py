"""Decompositions of what needs an order: `sort`, `topk`, where values belong, how many there are.

An element's rank is the number of those that go before it: a sum over pairs, which costs the square
of a row's length and no memory. Longer rows than `_MOST_RANKED` are not sorted on the card. The
first few of a long row are found in rounds: those of each block, then those of these.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.errors import UnsupportedError

aten = torch.ops.aten
# Elements of a row whose pairs are compared.
_MOST_RANKED = 1 << 14
_BLOCK = 1024
# In memory at once, where ops run one by one.
_MOST_FLAGS = 1 << 24


@decomposes(aten.sort.default)
def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    return _sort_stably(x, stable=True, dim=dim, descending=descending)


@decomposes(aten.sort.stable)
def _sort_stably(
    x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() == 0 or x.numel() == 0 or x.shape[dim] == 1:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    rows = x.movedim(dim, -1)
    if rows.shape[-1] > _MOST_RANKED:
        raise UnsupportedError(f"sorting rows of more than {_MOST_RANKED} elements")
    ranks = _ranks(rows, descending)
    place = torch.arange(rows.shape[-1], device=x.device).expand(rows.shape)
    indices = torch.zeros_like(ranks).scatter(-1, ranks, place)
    values = rows.gather(-1, indices)
    return values.movedim(-1, dim).contiguous(), indices.movedim(-1, dim).contiguous()


def _ranks(rows: torch.Tensor, descending: bool) -> torch.Tensor:
    """How many go before each element. Of equal ones those do that come first."""
    if rows.dtype is torch.bool:
        rows = rows.to(torch.int32)
    one, other = rows.unsqueeze(-2), rows.unsqueeze(-1)
    before = one > other if descending else one < other
    alike = one == other
    if rows.is_floating_point():
        # What is not a number is larger than all numbers.
        one_is, other_is = torch.isnan(one), torch.isnan(other)
        only, its = (one_is, other_is) if descending else (other_is, one_is)
        before = before | (only & ~its)
        alike = alike | (one_is & other_is)
    place = torch.arange(rows.shape[-1], device=rows.device)
    earlier = place < place.unsqueeze(-1)
    return (before | (alike & earlier)).to(torch.int32).sum(-1)


@decomposes(aten.kthvalue.default)
def _kthvalue(
    x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    length = 1 if x.dim() == 0 else x.shape[dim]
    torch._check(1 <= k <= length, lambda: "kthvalue(): selected number k out of range")
    return _picked(x, k - 1, dim, keepdim)


def _picked(
    x: torch.Tensor, place: int, dim: int, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = _sort(x, dim)
    if x.dim() == 0:
        return values, indices
    values, indices = values.select(dim, place).clone(), indices.select(dim, place).clone()
    return (values.unsqueeze(dim), indices.unsqueeze(dim)) if keepdim else (values, indices)


@decomposes(aten.median.dim)
def _median(
    x: torch.Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    length = 1 if x.dim() == 0 else x.shape[dim]
    values, indices = _picked(x, (length - 1) // 2, dim, keepdim)
    if not x.is_floating_point() or x.dim() == 0:
        return values, indices
    # One that is not a number is the median, the first of them.
    odd = torch.isnan(x)
    has_odd, first = odd.any(dim, keepdim), odd.to(torch.int32).argmax(dim, keepdim)
    return torch.where(has_odd, math.nan, values), torch.where(has_odd, first, indices)


@decomposes(aten.median.default)
def _median_of_all(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        return torch.full((), math.nan, dtype=x.dtype, device=x.device)
    found: torch.Tensor = _median(x.reshape(-1), 0)[0]
    return found


@decomposes(aten.nanmedian.dim)
def _nanmedian(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.is_floating_point() or x.dim() == 0 or x.shape[dim] == 0:
        return _median(x, dim, keepdim)
    values, indices = _sort(x, dim)
    # What is not a number comes last; of nothing else, the first is the median.
    numbers = (~torch.isnan(x)).to(torch.int32).sum(dim, keepdim=True)
    place = torch.div((numbers - 1).clamp(min=0), 2, rounding_mode="floor")
    found = values.gather(dim, place), indices.gather(dim, place)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


@decomposes(aten.nanmedian.default)
def _nanmedian_of_all(x: torch.Tensor) -> Any:
    if x.numel() == 0:
        return _median_of_all(x)
    return _nanmedian(x.reshape(-1), 0)[0]


@decomposes(aten.topk.default)
def _topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if k == 0 or x.numel() == 0:
        size = [k if each == dim % x.dim() else n for each, n in enumerate(x.shape)]
        return x.new_empty(size), x.new_empty(size, dtype=torch.int64)
    values, indices = _first(x.movedim(dim, -1), k, largest)
    return values.movedim(-1, dim).contiguous(), indices.movedim(-1, dim).contiguous()


def _first(rows: torch.Tensor, k: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    length = rows.shape[-1]
    if length <= _BLOCK or 2 * k > _BLOCK:
        if length > _MOST_RANKED:
            raise UnsupportedError(f"the first {k} of more than {_MOST_RANKED} elements")
        return _first_of_block(rows, k, largest)
    whole = length // _BLOCK
    blocks = rows[..., : whole * _BLOCK].reshape(*rows.shape[:-1], whole, _BLOCK)
    values, indices = _first_of_block(blocks, k, largest)
    indices = indices + _BLOCK * torch.arange(whole, device=rows.device).unsqueeze(-1)
    parts, places = [values.flatten(-2)], [indices.flatten(-2)]
    if length % _BLOCK:
        rest = rows[..., whole * _BLOCK :]
        values, indices = _first_of_block(rest, min(k, rest.shape[-1]), largest)
        parts.append(values)
        places.append(indices + whole * _BLOCK)
    values, among = _first(torch.cat(parts, -1), k, largest)
    return values, torch.cat(places, -1).gather(-1, among)


def _first_of_block(rows: torch.Tensor, k: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    length = rows.shape[-1]
    chosen = _ranks(rows, largest).unsqueeze(-2) == torch.arange(k, device=rows.device)[:, None]
    place = torch.arange(length, device=rows.device)
    indices = torch.where(chosen, place, 0).sum(-1)
    if rows.dtype is torch.bool:
        return (chosen & rows.unsqueeze(-2)).any(-1), indices
    # The largest of the chosen one and of what is least: exactly the chosen one.
    values = torch.where(chosen, rows.unsqueeze(-2), _least(rows)).amax(-1)
    return values, indices


def _least(x: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        return torch.full((), -math.inf, dtype=x.dtype, device=x.device)
    # Integers of 64 bits have 32 on the card.
    least = torch.iinfo(torch.int32 if x.dtype is torch.int64 else x.dtype).min
    return torch.full((), least, dtype=x.dtype, device=x.device)


@decomposes(aten.searchsorted.Tensor)
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
    found = x.unsqueeze(-1)
    # As a search finds them: what is not a number lies behind all bounds.
    stops = bounds > found if right or side == "right" else bounds >= found
    dtype = torch.int32 if out_int32 else torch.int64
    return (~stops).to(torch.int32).sum(-1).to(dtype)


@decomposes(aten.searchsorted.Scalar)
def _searchsorted_number(sequence: torch.Tensor, x: float, **options: Any) -> Any:
    number = torch.full((), x, dtype=sequence.dtype, device=sequence.device)
    return _searchsorted(sequence, number, **options)


@decomposes(aten.bucketize.Tensor)
def _bucketize(
    x: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> Any:
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


@decomposes(aten.histc.default)
def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    values = x.flatten()
    exact = values.to(torch.float32)
    low, high = (torch.full((), each, dtype=torch.float32, device=x.device) for each in (min, max))
    if min == max and x.numel():
        low, high = exact.amin(), exact.amax()
    alike = low == high
    low, high = torch.where(alike, low - 1, low), torch.where(alike, high + 1, high)
    bin = ((exact - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    inside = (exact >= low) & (exact <= high)
    member = (bin == torch.arange(bins, device=x.device)[:, None]) & inside
    counts = member.to(torch.int32).sum(-1).to(x.dtype)
    # The CPU refuses values that give no range; what runs on the card can only show it.
    return torch.where((low - high).isfinite(), counts, math.nan)


@decomposes(aten.bincount.default)
def _bincount(
    x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    if x.dim() != 1 or x.dtype.is_floating_point:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if x.numel() and int(x.amin()) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights is not None and weights.dtype is not torch.float32:
        raise RuntimeError(
            f"bincount with weights of {weights.dtype} gives float64: the Spyre backend does not "
            "support dtype Double (float64); convert the weights to torch.float32 first"
        )
    bins = max(minlength, int(x.amax()) + 1 if x.numel() else 0)
    if x.numel() == 0 or bins == 0:
        return x.new_zeros(bins, dtype=torch.int64)
    return _counted(x, bins) if weights is None else _weighed(x, weights, bins)


def _counted(x: torch.Tensor, bins: int) -> torch.Tensor:
    """By two digits: how often they meet is a product of their flags, and exact in float32."""
    base = 1 << (math.isqrt(bins - 1).bit_length() if bins > 1 else 0)
    high, low = (torch.arange(n, device=x.device) for n in (-(-bins // base), base))
    total = x.new_zeros(bins, dtype=torch.int64)
    for part in x.split(max(1, _MOST_FLAGS // (high.numel() + base))):
        first = (part // base == high[:, None]).to(torch.float32)
        second = (part[:, None] % base == low).to(torch.float32)
        total = total + torch.mm(first, second).to(torch.int64).flatten()[:bins]
    return total


def _weighed(x: torch.Tensor, weights: torch.Tensor, bins: int) -> torch.Tensor:
    # No product, in which what is not finite would reach all bins.
    found = []
    for some in torch.arange(bins, device=x.device).split(max(1, _MOST_FLAGS // x.numel())):
        found.append(torch.where(x == some[:, None], weights, 0).sum(-1))
    return torch.cat(found)

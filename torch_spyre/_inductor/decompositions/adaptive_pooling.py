"""Decompositions of pooling to a wanted size, and of its gradients.

Where windows are all of one size they are those of `pooling`. Elsewhere each result looks at a
whole row, of which it counts the elements that its window sees.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.pooling import largest, largest_backward, windows_of
from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.windows import along, repeated
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


def _bounds(size: int, count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each window begins, and where it ends."""
    place = torch.arange(count, dtype=torch.int32, device=device)
    start = torch.div(place * size, count, rounding_mode="floor")
    end = torch.div((place + 1) * size + count - 1, count, rounding_mode="floor")
    return start, end


def _members(size: int, count: int, dim: int, device: torch.device) -> torch.Tensor:
    """Which elements each window sees: windows are the dim before the elements'."""
    start, end = _bounds(size, count, device)
    place = torch.arange(size, dtype=torch.int32, device=device)
    inside = (place >= start.unsqueeze(-1)) & (place < end.unsqueeze(-1))
    return inside.reshape(count, size, *[1] * (-1 - dim))


def _lengths(size: int, count: int, dim: int, device: torch.device) -> torch.Tensor | int:
    if size % count == 0:
        return size // count
    start, end = _bounds(size, count, device)
    return along((end - start).to(torch.float32), dim)


def _adaptive_avg_pool(dims: int) -> Callable[..., Any]:
    def pool(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in x.shape[-dims:]:
            return NotImplemented
        if 0 in (*x.shape, *output_size):
            return x.new_empty(*x.shape[:-dims], *output_size)
        result = x.to(torch.float32)
        for dim, count in zip(range(-1, -1 - dims, -1), reversed(output_size), strict=True):
            result = _averages(result, dim, count)
        return result.to(x.dtype)

    return pool


def _averages(x: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    size = x.shape[dim]
    if size == count:
        return x
    if size % count == 0:
        before, behind = x.shape[: x.dim() + dim], x.shape[x.dim() + dim + 1 :]
        return x.reshape(*before, count, size // count, *behind).mean(dim)
    inside = _members(size, count, dim, x.device)
    total = torch.where(inside, x.unsqueeze(dim - 1), 0.0).sum(dim)
    averages: torch.Tensor = total / _lengths(size, count, dim, x.device)
    return averages


def _adaptive_avg_pool_backward(dims: int) -> Callable[..., Any]:
    def backward(gradient: torch.Tensor, x: torch.Tensor) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in x.shape[-dims:]:
            return NotImplemented
        if 0 in (*x.shape, *gradient.shape):
            return torch.zeros_like(x)
        share = gradient.to(torch.float32)
        for dim in range(-1, -1 - dims, -1):
            size, count = x.shape[dim], gradient.shape[dim]
            share = share / _lengths(size, count, dim, x.device)
            if size % count == 0:
                share = repeated(share, share.dim() + dim, size // count)
                continue
            inside = _members(size, count, dim, x.device)
            share = torch.where(inside, share.unsqueeze(dim), 0.0).sum(dim - 1)
        return share.to(x.dtype)

    return backward


decomposes(aten._adaptive_avg_pool2d.default)(_adaptive_avg_pool(2))
decomposes(aten._adaptive_avg_pool3d.default)(_adaptive_avg_pool(3))
decomposes(aten._adaptive_avg_pool2d_backward.default)(_adaptive_avg_pool_backward(2))
decomposes(aten._adaptive_avg_pool3d_backward.default)(_adaptive_avg_pool_backward(3))


def _even_windows(sizes: Sequence[int], counts: Sequence[int]) -> Any:
    """The windows, if each dim has windows of one size that do not overlap."""
    if any(size % count for size, count in zip(sizes, counts, strict=True)):
        return None
    kernel = [size // count for size, count in zip(sizes, counts, strict=True)]
    return windows_of(sizes, kernel, kernel, (0,), (1,), False)


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    def pool(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in (*x.shape, *output_size):
            return NotImplemented
        sizes = x.shape[-dims:]
        windows = _even_windows(sizes, output_size)
        if windows is not None:
            return largest(x, windows)
        values, where, step = x, None, 1
        for dim, count in zip(range(-1, -1 - dims, -1), reversed(output_size), strict=True):
            values, found = _largest_along(values, dim, count)
            where = found if where is None else found * step + where.gather(dim, found)
            step *= x.shape[dim]
        assert where is not None
        return values, where.to(torch.int64)

    return pool


def _largest_along(x: torch.Tensor, dim: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of equal ones the first, of what is not a number the last."""
    size = x.shape[dim]
    inside = _members(size, count, dim, x.device)
    rows = x.unsqueeze(dim - 1)
    least = torch.full((), -math.inf, dtype=x.dtype, device=x.device)
    values = torch.where(inside, rows, least).amax(dim, keepdim=True)
    place = along(torch.arange(size, dtype=torch.int32, device=x.device), dim)
    none = torch.where(inside & torch.isnan(rows), place, -1).amax(dim)
    first = torch.where(inside & (rows == values), place, size).amin(dim)
    return values.squeeze(dim), torch.where(none >= 0, none, first)


def _adaptive_max_pool_backward(dims: int) -> Callable[..., Any]:
    def backward(gradient: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in (*x.shape, *gradient.shape):
            return NotImplemented
        sizes = x.shape[-dims:]
        windows = _even_windows(sizes, gradient.shape[-dims:])
        if windows is not None:
            return largest_backward(gradient, indices, windows)
        own = torch.arange(math.prod(sizes), dtype=torch.int32, device=x.device).unsqueeze(-1)
        where = indices.to(torch.int32).flatten(-dims).unsqueeze(-2)
        values = gradient.to(torch.float32).flatten(-dims).unsqueeze(-2)
        return torch.where(where == own, values, 0.0).sum(-1).reshape(x.shape).to(x.dtype)

    return backward


decomposes(aten.adaptive_max_pool2d.default)(_adaptive_max_pool(2))
decomposes(aten.adaptive_max_pool3d.default)(_adaptive_max_pool(3))
decomposes(aten.adaptive_max_pool2d_backward.default)(_adaptive_max_pool_backward(2))
decomposes(aten.adaptive_max_pool3d_backward.default)(_adaptive_max_pool_backward(3))

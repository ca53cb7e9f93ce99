"""Decompositions of adaptive pooling and its gradients.

Windows of one size are pooled as in `pooling`. Otherwise each result reduces a whole row, in which
a mask selects the elements of its window.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.pooling import (
    Windows,
    sliding_windows,
    windowed_max,
    windowed_max_backward,
)
from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.windows import broadcast_along, repeat_interleave
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


def _bounds(size: int, count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first index of each window, and the index after its last."""
    window = torch.arange(count, dtype=torch.int32, device=device)
    start = torch.div(window * size, count, rounding_mode="floor")
    end = torch.div((window + 1) * size + count - 1, count, rounding_mode="floor")
    return start, end


def _window_mask(size: int, count: int, dim: int, device: torch.device) -> torch.Tensor:
    """Return a mask of the elements in each window; the dim of windows is before theirs."""
    start, end = _bounds(size, count, device)
    position = torch.arange(size, dtype=torch.int32, device=device)
    is_inside = (position >= start.unsqueeze(-1)) & (position < end.unsqueeze(-1))
    return is_inside.reshape(count, size, *[1] * (-1 - dim))


def _window_sizes(size: int, count: int, dim: int, device: torch.device) -> torch.Tensor | int:
    """Return the number of elements in each window: an int if it is the same for all."""
    if size % count == 0:
        return size // count
    start, end = _bounds(size, count, device)
    return broadcast_along((end - start).to(torch.float32), dim)


def _adaptive_avg_pool(dims: int) -> Callable[..., Any]:
    def pool(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in x.shape[-dims:]:
            return NotImplemented
        if 0 in (*x.shape, *output_size):
            return x.new_empty(*x.shape[:-dims], *output_size)
        result = x.to(torch.float32)
        for dim, count in zip(range(-1, -1 - dims, -1), reversed(output_size), strict=True):
            result = _average_along(result, dim, count)
        return result.to(x.dtype)

    return pool


def _average_along(x: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    size = x.shape[dim]
    if size == count:
        return x
    if size % count == 0:
        before, after = x.shape[: x.dim() + dim], x.shape[x.dim() + dim + 1 :]
        return x.reshape(*before, count, size // count, *after).mean(dim)
    mask = _window_mask(size, count, dim, x.device)
    total = torch.where(mask, x.unsqueeze(dim - 1), 0.0).sum(dim)
    average: torch.Tensor = total / _window_sizes(size, count, dim, x.device)
    return average


def _adaptive_avg_pool_backward(dims: int) -> Callable[..., Any]:
    def backward(gradient: torch.Tensor, x: torch.Tensor) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in x.shape[-dims:]:
            return NotImplemented
        if 0 in (*x.shape, *gradient.shape):
            return torch.zeros_like(x)
        result = gradient.to(torch.float32)
        for dim in range(-1, -1 - dims, -1):
            size, count = x.shape[dim], gradient.shape[dim]
            result = result / _window_sizes(size, count, dim, x.device)
            if size % count == 0:
                result = repeat_interleave(result, result.dim() + dim, size // count)
                continue
            mask = _window_mask(size, count, dim, x.device)
            result = torch.where(mask, result.unsqueeze(dim), 0.0).sum(dim - 1)
        return result.to(x.dtype)

    return backward


register_decomposition(aten._adaptive_avg_pool2d.default)(_adaptive_avg_pool(2))
register_decomposition(aten._adaptive_avg_pool3d.default)(_adaptive_avg_pool(3))
register_decomposition(aten._adaptive_avg_pool2d_backward.default)(_adaptive_avg_pool_backward(2))
register_decomposition(aten._adaptive_avg_pool3d_backward.default)(_adaptive_avg_pool_backward(3))


def _uniform_windows(sizes: Sequence[int], counts: Sequence[int]) -> list[Windows] | None:
    """Return the windows, or None unless they have one size along each dim and do not overlap."""
    if any(size % count for size, count in zip(sizes, counts, strict=True)):
        return None
    kernel = [size // count for size, count in zip(sizes, counts, strict=True)]
    return sliding_windows(sizes, kernel, kernel, (0,), (1,), False)


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    def pool(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in (*x.shape, *output_size):
            return NotImplemented
        sizes = x.shape[-dims:]
        windows = _uniform_windows(sizes, output_size)
        if windows is not None:
            return windowed_max(x, windows)
        values, indices, stride = x, None, 1
        for dim, count in zip(range(-1, -1 - dims, -1), reversed(output_size), strict=True):
            values, index = _max_along(values, dim, count)
            indices = index if indices is None else index * stride + indices.gather(dim, index)
            stride *= x.shape[dim]
        assert indices is not None
        return values, indices.to(torch.int64)

    return pool


def _max_along(x: torch.Tensor, dim: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum of each window along a dim and its index in the dim.

    Of equal elements the index is that of the first, of NaNs that of the last.
    """
    size = x.shape[dim]
    mask = _window_mask(size, count, dim, x.device)
    rows = x.unsqueeze(dim - 1)
    lowest = torch.full((), -math.inf, dtype=x.dtype, device=x.device)
    values = torch.where(mask, rows, lowest).amax(dim, keepdim=True)
    position = broadcast_along(torch.arange(size, dtype=torch.int32, device=x.device), dim)
    last_nan = torch.where(mask & torch.isnan(rows), position, -1).amax(dim)
    first_max = torch.where(mask & (rows == values), position, size).amin(dim)
    return values.squeeze(dim), torch.where(last_nan >= 0, last_nan, first_max)


def _adaptive_max_pool_backward(dims: int) -> Callable[..., Any]:
    def backward(gradient: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> Any:
        if x.dtype not in FLOAT_DTYPES or 0 in (*x.shape, *gradient.shape):
            return NotImplemented
        sizes = x.shape[-dims:]
        windows = _uniform_windows(sizes, gradient.shape[-dims:])
        if windows is not None:
            return windowed_max_backward(gradient, indices, windows)
        position = torch.arange(math.prod(sizes), dtype=torch.int32, device=x.device).unsqueeze(-1)
        index = indices.to(torch.int32).flatten(-dims).unsqueeze(-2)
        values = gradient.to(torch.float32).flatten(-dims).unsqueeze(-2)
        return torch.where(index == position, values, 0.0).sum(-1).reshape(x.shape).to(x.dtype)

    return backward


register_decomposition(aten.adaptive_max_pool2d.default)(_adaptive_max_pool(2))
register_decomposition(aten.adaptive_max_pool3d.default)(_adaptive_max_pool(3))
register_decomposition(aten.adaptive_max_pool2d_backward.default)(_adaptive_max_pool_backward(2))
register_decomposition(aten.adaptive_max_pool3d_backward.default)(_adaptive_max_pool_backward(3))

"""Decompositions of pooling with windows of one size, and of its gradients.

Dims are pooled one after the other: a window of 3 by 3 costs six steps, not nine. Sums accumulate
in float32 and are rounded once.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.windows import (
    broadcast_along,
    covering_windows,
    expand_param,
    kernel_slices,
    pad_dims,
)
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


@dataclass(frozen=True)
class Windows:
    """The pooling windows along a dim; `dim` is negative."""

    dim: int
    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    count: int

    @property
    def high_padding(self) -> int:
        """The elements to append for the last window; negative if elements are left over."""
        last = (self.count - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return last - self.size - self.padding

    def slices(self, x: torch.Tensor, fill: float) -> list[torch.Tensor]:
        """Return, for each position in a window, the elements that all windows read there."""
        later = [0] * (-1 - self.dim)
        padded = pad_dims(x, [self.padding, *later], [self.high_padding, *later], fill)
        ones = [1] * len(later)
        return kernel_slices(
            padded,
            [self.kernel, *ones],
            [self.count, *padded.shape[self.dim + 1 :]] if later else [self.count],
            [self.stride, *ones],
            [self.dilation, *ones],
        )

    def covering(self, x: torch.Tensor, fill: float) -> list[torch.Tensor]:
        """Return, for each element, the values in x of the windows that may cover it."""
        span = self.dilation * (self.kernel - 1) + 1
        return covering_windows(x, self.dim, self.size, span, self.stride, self.padding, fill)


def sliding_windows(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[Windows]:
    """Return the windows along each of the last dims, from the arguments of a pooling op."""
    num_dims = len(size)
    kernel = expand_param(kernel, num_dims)
    stride = expand_param(stride, num_dims) if stride else kernel
    padding, dilation = expand_param(padding, num_dims), expand_param(dilation, num_dims)
    windows = []
    for position, params in enumerate(zip(size, kernel, stride, padding, dilation, strict=True)):
        n, extent, step, pad, hop = params
        last_start = n + 2 * pad - hop * (extent - 1) - 1
        count = (last_start + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= n + pad:
            # The last window would begin in the padding.
            count -= 1
        windows.append(Windows(position - num_dims, n, extent, step, pad, hop, count))
    return windows


def windowed_max(x: torch.Tensor, windows: Sequence[Windows]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum of each window and its index into the flattened pooled dims.

    Of equal elements the index is that of the first, of NaNs that of the last.
    """
    sizes = [along_dim.size for along_dim in windows]
    values = x
    # The card stores int64 in 32 bits.
    integer = torch.int32 if x.dtype is torch.int64 else x.dtype
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(integer).min
    indices = torch.arange(math.prod(sizes), dtype=torch.int32, device=x.device).reshape(sizes)
    for along_dim in reversed(windows):
        value_slices = along_dim.slices(values, lowest)
        index_slices = along_dim.slices(indices, -1)
        values, indices = value_slices[0], index_slices[0]
        for value, index in zip(value_slices[1:], index_slices[1:], strict=True):
            is_new_max = (value > values) | torch.isnan(value) | (indices < 0)
            # The padding, whose index is -1, is never the maximum.
            indices = torch.where(is_new_max & (index >= 0), index, indices)
            values = torch.maximum(values, value)
    return values, indices.expand(values.shape).to(torch.int64)


def windowed_max_backward(
    gradient: torch.Tensor, indices: torch.Tensor, windows: Sequence[Windows]
) -> torch.Tensor:
    """Return the sum, for each element, of the gradients of the windows whose maximum it is."""
    sizes = [along_dim.size for along_dim in windows]
    position = torch.arange(math.prod(sizes), dtype=torch.int32, device=gradient.device)
    position = position.reshape(sizes)
    terms = [(gradient, indices.to(torch.int32))]
    for along_dim in windows:
        terms = [
            pair
            for value, index in terms
            for pair in zip(
                along_dim.covering(value, 0.0), along_dim.covering(index, -1), strict=True
            )
        ]
    return _sum_terms(torch.where(index == position, value, 0.0) for value, index in terms)


def _sum_terms(terms: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the sum of the terms; floats accumulate in float32."""
    first, *remaining = terms
    if not remaining:
        return first
    accumulator = torch.float32 if first.is_floating_point() else first.dtype
    total = first.to(accumulator)
    for term in remaining:
        total = total + term.to(accumulator)
    return total.to(first.dtype)


def _max_pool(dims: int) -> Callable[..., Any]:
    def pool(
        x: torch.Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> Any:
        options = kernel_size, stride, padding, dilation, ceil_mode
        return windowed_max(x, sliding_windows(x.shape[-dims:], *options))

    return pool


def _max_pool_backward(dims: int) -> Callable[..., Any]:
    def backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
        indices: torch.Tensor,
    ) -> Any:
        if x.dtype not in FLOAT_DTYPES:
            return NotImplemented
        options = kernel_size, stride, padding, dilation, ceil_mode
        windows = sliding_windows(x.shape[-dims:], *options)
        return windowed_max_backward(gradient, indices, windows)

    return backward


register_decomposition(aten.max_pool2d_with_indices.default)(_max_pool(2))
register_decomposition(aten.max_pool3d_with_indices.default)(_max_pool(3))
register_decomposition(aten.max_pool2d_with_indices_backward.default)(_max_pool_backward(2))
register_decomposition(aten.max_pool3d_with_indices_backward.default)(_max_pool_backward(3))


def _divide(
    x: torch.Tensor, windows: Sequence[Windows], count_include_pad: bool, divisor: int | None
) -> torch.Tensor:
    """Divide by `divisor`, or else by the number of elements in each window."""
    if not x.is_floating_point():
        count: Any = 1 if divisor is None else divisor
        for along_dim in windows if divisor is None else ():
            count = count * _divisor(along_dim, count_include_pad, x.device)
        count = count.to(x.dtype) if isinstance(count, torch.Tensor) else count
        return torch.div(x, count, rounding_mode="trunc")
    if divisor is not None:
        return x / divisor
    for along_dim in windows:
        x = x / _divisor(along_dim, count_include_pad, x.device)
    return x


def _divisor(windows: Windows, count_include_pad: bool, device: torch.device) -> Any:
    """Return the number of elements in each window: an int if it is the same for all."""
    pad = windows.padding if count_include_pad else 0
    low, high = -pad, windows.size + pad
    starts = [number * windows.stride - windows.padding for number in range(windows.count)]
    counts = {min(first + windows.kernel, high) - max(first, low) for first in starts}
    if len(counts) == 1:
        return counts.pop()
    start = torch.arange(windows.count, dtype=torch.int32, device=device)
    start = start * windows.stride - windows.padding
    count = (start + windows.kernel).clamp(max=high) - start.clamp(min=low)
    return broadcast_along(count.to(torch.float32), windows.dim)


def _avg_pool(dims: int) -> Callable[..., Any]:
    def pool(
        x: torch.Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if divisor_override == 0:
            return NotImplemented
        windows = sliding_windows(x.shape[-dims:], kernel_size, stride, padding, (1,), ceil_mode)
        total = x.to(torch.float32) if x.is_floating_point() else x
        for along_dim in reversed(windows):
            total = _sum_terms(along_dim.slices(total, 0))
        return _divide(total, windows, count_include_pad, divisor_override).to(x.dtype)

    return pool


def _avg_pool_backward(dims: int) -> Callable[..., Any]:
    def backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        if x.dtype not in FLOAT_DTYPES or divisor_override == 0:
            return NotImplemented
        windows = sliding_windows(x.shape[-dims:], kernel_size, stride, padding, (1,), ceil_mode)
        result = gradient.to(torch.float32)
        result = _divide(result, windows, count_include_pad, divisor_override)
        for along_dim in windows:
            result = _sum_covering(result, along_dim)
        return result.to(x.dtype)

    return backward


def _sum_covering(x: torch.Tensor, windows: Windows) -> torch.Tensor:
    """Return the sum, for each element, of the values in x of the windows that cover it."""
    terms = windows.covering(x, 0.0)
    if windows.kernel % windows.stride:
        # The earliest candidate ends before some of the elements.
        position = torch.arange(windows.size, dtype=torch.int32, device=x.device)
        position = (position + windows.padding) % windows.stride
        is_covered = position < windows.kernel % windows.stride
        terms[0] = torch.where(broadcast_along(is_covered, windows.dim), terms[0], 0.0)
    return _sum_terms(terms)


register_decomposition(aten.avg_pool2d.default)(_avg_pool(2))
register_decomposition(aten.avg_pool3d.default)(_avg_pool(3))
register_decomposition(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
register_decomposition(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))

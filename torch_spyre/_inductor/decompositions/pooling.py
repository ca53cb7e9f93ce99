"""Decompositions of pooling with windows of one size, and of its gradients.

Windows go along one dim after the other: a window of 3 by 3 costs six steps, not nine. Sums are
kept in float32 and rounded once.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.windows import (
    along,
    for_each_dim,
    padded,
    places,
    seen_by,
)
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


@dataclass(frozen=True)
class Windows:
    """Those along one dim, counted from the end."""

    dim: int
    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    count: int

    @property
    def high(self) -> int:
        """What is missing behind, or left over, for the last window."""
        last = (self.count - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return last - self.size - self.padding

    def parts(self, x: torch.Tensor, fill: float) -> list[torch.Tensor]:
        """What each place of the windows sees."""
        later = [0] * (-1 - self.dim)
        wide = padded(x, [self.padding, *later], [self.high, *later], fill)
        rest = [1] * len(later)
        return places(
            wide,
            [self.kernel, *rest],
            [self.count, *wide.shape[self.dim + 1 :]] if later else [self.count],
            [self.stride, *rest],
            [self.dilation, *rest],
        )

    def backward(self, x: torch.Tensor, fill: float) -> list[torch.Tensor]:
        """For each element, what the windows that may see it have: the last first."""
        span = self.dilation * (self.kernel - 1) + 1
        return seen_by(x, self.dim, self.size, span, self.stride, self.padding, fill)


def windows_of(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[Windows]:
    dims = len(size)
    kernel = for_each_dim(kernel, dims)
    stride = for_each_dim(stride, dims) if stride else kernel
    padding, dilation = for_each_dim(padding, dims), for_each_dim(dilation, dims)
    found = []
    for place, each in enumerate(zip(size, kernel, stride, padding, dilation, strict=True)):
        n, extent, step, pad, hop = each
        left = n + 2 * pad - hop * (extent - 1) - 1
        count = (left + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= n + pad:
            # The last one would begin behind everything.
            count -= 1
        found.append(Windows(place - dims, n, extent, step, pad, hop, count))
    return found


def largest(x: torch.Tensor, windows: Sequence[Windows]) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest of each window, and where it is among the elements of all dims.

    Of equal ones that is the first, of what is not a number the last.
    """
    sizes = [each.size for each in windows]
    values = x
    # Integers of 64 bits have 32 on the card.
    whole = torch.int32 if x.dtype is torch.int64 else x.dtype
    least = -math.inf if x.is_floating_point() else torch.iinfo(whole).min
    where = torch.arange(math.prod(sizes), dtype=torch.int32, device=x.device).reshape(sizes)
    for each in reversed(windows):
        parts, spots = each.parts(values, least), each.parts(where, -1)
        values, where = parts[0], spots[0]
        for part, spot in zip(parts[1:], spots[1:], strict=True):
            takes = (part > values) | torch.isnan(part) | (where < 0)
            # What was put around the elements is never found.
            where = torch.where(takes & (spot >= 0), spot, where)
            values = torch.maximum(values, part)
    return values, where.expand(values.shape).to(torch.int64)


def largest_backward(
    gradient: torch.Tensor, indices: torch.Tensor, windows: Sequence[Windows]
) -> torch.Tensor:
    """Each element gets what the windows had whose largest it is."""
    sizes = [each.size for each in windows]
    own = torch.arange(math.prod(sizes), dtype=torch.int32, device=gradient.device).reshape(sizes)
    terms = [(gradient, indices.to(torch.int32))]
    for each in windows:
        terms = [
            pair
            for value, where in terms
            for pair in zip(each.backward(value, 0.0), each.backward(where, -1), strict=True)
        ]
    return _total(torch.where(where == own, value, 0.0) for value, where in terms)


def _total(terms: Iterable[torch.Tensor]) -> torch.Tensor:
    first, *others = terms
    if not others:
        return first
    wide = torch.float32 if first.is_floating_point() else first.dtype
    total = first.to(wide)
    for each in others:
        total = total + each.to(wide)
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
        return largest(x, windows_of(x.shape[-dims:], *options))

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
        return largest_backward(gradient, indices, windows_of(x.shape[-dims:], *options))

    return backward


decomposes(aten.max_pool2d_with_indices.default)(_max_pool(2))
decomposes(aten.max_pool3d_with_indices.default)(_max_pool(3))
decomposes(aten.max_pool2d_with_indices_backward.default)(_max_pool_backward(2))
decomposes(aten.max_pool3d_with_indices_backward.default)(_max_pool_backward(3))


def _averaged(
    x: torch.Tensor, windows: Sequence[Windows], with_padding: bool, divisor: int | None
) -> torch.Tensor:
    """Divided by the number of elements that each window sees, or by one number."""
    if not x.is_floating_point():
        count: Any = 1 if divisor is None else divisor
        for each in windows if divisor is None else ():
            count = count * _seen(each, with_padding, x.device)
        count = count.to(x.dtype) if isinstance(count, torch.Tensor) else count
        return torch.div(x, count, rounding_mode="trunc")
    if divisor is not None:
        return x / divisor
    for each in windows:
        x = x / _seen(each, with_padding, x.device)
    return x


def _seen(windows: Windows, with_padding: bool, device: torch.device) -> Any:
    """Of how many elements each window is: a number if all are alike."""
    pad = windows.padding if with_padding else 0
    low, high = -pad, windows.size + pad
    starts = [place * windows.stride - windows.padding for place in range(windows.count)]
    counts = {min(each + windows.kernel, high) - max(each, low) for each in starts}
    if len(counts) == 1:
        return counts.pop()
    start = torch.arange(windows.count, dtype=torch.int32, device=device)
    start = start * windows.stride - windows.padding
    seen = (start + windows.kernel).clamp(max=high) - start.clamp(min=low)
    return along(seen.to(torch.float32), windows.dim)


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
        windows = windows_of(x.shape[-dims:], kernel_size, stride, padding, (1,), ceil_mode)
        total = x.to(torch.float32) if x.is_floating_point() else x
        for each in reversed(windows):
            total = _total(each.parts(total, 0))
        return _averaged(total, windows, count_include_pad, divisor_override).to(x.dtype)

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
        windows = windows_of(x.shape[-dims:], kernel_size, stride, padding, (1,), ceil_mode)
        share = gradient.to(torch.float32)
        share = _averaged(share, windows, count_include_pad, divisor_override)
        for each in windows:
            share = _given_back(share, each)
        return share.to(x.dtype)

    return backward


def _given_back(x: torch.Tensor, windows: Windows) -> torch.Tensor:
    """Each element gets the sum of what the windows have that see it."""
    terms = windows.backward(x, 0.0)
    if windows.kernel % windows.stride:
        # The earliest window that is offered ends before some of the elements.
        place = torch.arange(windows.size, dtype=torch.int32, device=x.device)
        place = (place + windows.padding) % windows.stride
        inside = place < windows.kernel % windows.stride
        terms[0] = torch.where(along(inside, windows.dim), terms[0], 0.0)
    return _total(terms)


decomposes(aten.avg_pool2d.default)(_avg_pool(2))
decomposes(aten.avg_pool3d.default)(_avg_pool(3))
decomposes(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
decomposes(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))

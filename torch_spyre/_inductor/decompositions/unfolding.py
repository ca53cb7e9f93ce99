"""Decompositions of `im2col`, which lays what windows see side by side, and of its reverse."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.pooling import windows_of
from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.windows import for_each_dim, padded, places, spread
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


def _in_2d(*options: Sequence[int]) -> list[list[int]]:
    return [for_each_dim(each, 2) for each in options]


@decomposes(aten.im2col.default)
def _im2col(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    kernel, dilation, padding, stride = _in_2d(kernel_size, dilation, padding, stride)
    windows = windows_of(x.shape[-2:], kernel, stride, padding, dilation, False)
    out = [each.count for each in windows]
    if x.numel() == 0:
        return x.new_empty(*x.shape[:-3], x.shape[-3] * prod(kernel), prod(out))
    wide = padded(x, padding, padding, 0)
    parts = [
        part.reshape(*x.shape[:-2], 1, prod(out))
        for part in places(wide, kernel, out, stride, dilation)
    ]
    return torch.cat(parts, -2).reshape(*x.shape[:-3], x.shape[-3] * prod(kernel), prod(out))


@decomposes(aten.col2im.default)
def _col2im(
    x: torch.Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    kernel, dilation, padding, stride = _in_2d(kernel_size, dilation, padding, stride)
    if x.numel() == 0:
        return x.new_empty(*x.shape[:-2], x.shape[-2] // prod(kernel), *output_size)
    if x.dtype not in FLOAT_DTYPES:
        return NotImplemented
    windows = windows_of(output_size, kernel, stride, padding, dilation, False)
    out = [each.count for each in windows]
    parts = x.reshape(*x.shape[:-2], -1, prod(kernel), *out).to(torch.float32)
    total = None
    for number in range(prod(kernel)):
        part = spread(parts.select(-3, number), stride)
        first = [number // kernel[1] * dilation[0], number % kernel[1] * dilation[1]]
        low = [at - pad for at, pad in zip(first, padding, strict=True)]
        spare = zip(output_size, part.shape[-2:], low, strict=True)
        part = padded(part, low, [n - length - before for n, length, before in spare], 0.0)
        total = part if total is None else total + part
    assert total is not None
    return total.to(x.dtype)

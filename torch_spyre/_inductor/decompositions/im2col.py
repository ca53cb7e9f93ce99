"""Decompositions of `im2col`, which copies windows into columns, and of `col2im`."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.pooling import sliding_windows
from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.windows import (
    expand_param,
    insert_zeros,
    kernel_slices,
    pad_dims,
)
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


def _in_2d(*params: Sequence[int]) -> list[list[int]]:
    return [expand_param(param, 2) for param in params]


@register_decomposition(aten.im2col.default)
def _im2col(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    kernel, dilation, padding, stride = _in_2d(kernel_size, dilation, padding, stride)
    windows = sliding_windows(x.shape[-2:], kernel, stride, padding, dilation, False)
    out = [along_dim.count for along_dim in windows]
    if x.numel() == 0:
        return x.new_empty(*x.shape[:-3], x.shape[-3] * prod(kernel), prod(out))
    padded = pad_dims(x, padding, padding, 0)
    slices = [
        part.reshape(*x.shape[:-2], 1, prod(out))
        for part in kernel_slices(padded, kernel, out, stride, dilation)
    ]
    return torch.cat(slices, -2).reshape(*x.shape[:-3], x.shape[-3] * prod(kernel), prod(out))


@register_decomposition(aten.col2im.default)
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
    windows = sliding_windows(output_size, kernel, stride, padding, dilation, False)
    out = [along_dim.count for along_dim in windows]
    columns = x.reshape(*x.shape[:-2], -1, prod(kernel), *out).to(torch.float32)
    total = None
    for position in range(prod(kernel)):
        term = insert_zeros(columns.select(-3, position), stride)
        first = [position // kernel[1] * dilation[0], position % kernel[1] * dilation[1]]
        low = [start - pad for start, pad in zip(first, padding, strict=True)]
        extents = zip(output_size, term.shape[-2:], low, strict=True)
        term = pad_dims(term, low, [n - length - before for n, length, before in extents], 0.0)
        total = term if total is None else total + term
    assert total is not None
    return total.to(x.dtype)

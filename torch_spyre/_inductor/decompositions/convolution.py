"""Decompositions of convolutions into matmuls.

If windows do not overlap, a convolution is a matmul with a view of its input. A depthwise one is a
sum over the kernel positions, any other a matmul with the columns of im2col. A transposed
convolution is a convolution of an input with zeros between its elements, with flipped kernels.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.windows import (
    expand_param,
    insert_zeros,
    kernel_slices,
    pad_dims,
)
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


@register_decomposition(aten.convolution.default)
def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    dims = weight.dim() - 2
    if x.dim() != dims + 2 or x.dtype not in FLOAT_DTYPES or 0 in (*x.shape[1:], *weight.shape):
        return NotImplemented
    stride, padding, dilation, output_padding = (
        expand_param(param, dims) for param in (stride, padding, dilation, output_padding)
    )
    if transposed:
        torch._check(
            all(
                extra < max(step, hop)
                for extra, step, hop in zip(output_padding, stride, dilation, strict=True)
            ),
            lambda: (
                "output padding must be smaller than either stride or dilation, but got "
                f"output_padding: {output_padding} stride: {stride} dilation: {dilation}"
            ),
        )
    if x.shape[0] == 0:
        # The result for an empty batch is empty, but has a shape.
        params = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
        if transposed:
            size = [
                (n - 1) * step - 2 * pad + hop * (extent - 1) + 1
                for n, extent, step, pad, hop in params
            ]
            size = [n + extra for n, extra in zip(size, output_padding, strict=True)]
            return x.new_zeros(0, weight.shape[1] * groups, *size)
        size = [
            (n + 2 * pad - hop * (extent - 1) - 1) // step + 1
            for n, extent, step, pad, hop in params
        ]
        return x.new_zeros(0, weight.shape[0], *size)
    if transposed:
        result = transposed_convolution(
            x, weight, stride, padding, dilation, output_padding, groups
        )
    else:
        padded = pad_dims(x, padding, padding, 0.0)
        result = convolve(padded, weight, stride, dilation, groups)
    if bias is not None:
        result = result + bias.reshape(-1, *[1] * dims)
    return result


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Return the convolution, without bias, of an input that is already padded."""
    kernel, size = list(weight.shape[2:]), x.shape[2:]
    spans = [step * (extent - 1) + 1 for step, extent in zip(dilation, kernel, strict=True)]
    out = [(n - span) // step + 1 for n, span, step in zip(size, spans, stride, strict=True)]
    if is_patchwise(kernel, stride, dilation, groups):
        return _convolve_patches(x, weight, out)
    if groups == x.shape[1] == weight.shape[0]:
        return _convolve_depthwise(x, weight, out, stride, dilation)
    return _convolve_columns(x, weight, out, stride, dilation, groups)


def is_patchwise(
    kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], groups: int
) -> bool:
    """Return whether windows are adjacent patches, which do not overlap."""
    return groups == 1 and list(kernel) == list(stride) and all(step == 1 for step in dilation)


def _convolve_patches(x: torch.Tensor, weight: torch.Tensor, out: Sequence[int]) -> torch.Tensor:
    """Return a patchwise convolution, as one matmul."""
    rows = patches(x, weight.shape[2:], out)
    result = torch.mm(rows, weight.reshape(weight.shape[0], -1).t())
    return result.reshape(x.shape[0], *out, -1).movedim(-1, 1).contiguous()


def patches(x: torch.Tensor, kernel: Sequence[int], out: Sequence[int]) -> torch.Tensor:
    """Return the patches of an input as the rows of a matrix."""
    batch, channels, *_ = x.shape
    dims = len(out)
    for dim, (count, extent) in enumerate(zip(out, kernel, strict=True)):
        x = x.narrow(2 + dim, 0, count * extent)
    split_size = [n for pair in zip(out, kernel, strict=True) for n in pair]
    split = x.reshape(batch, channels, *split_size)
    order = [0, *range(2, 2 + 2 * dims, 2), 1, *range(3, 2 + 2 * dims, 2)]
    return split.permute(order).reshape(batch * prod(out), channels * prod(kernel))


def _convolve_depthwise(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> torch.Tensor:
    """Return a depthwise convolution. Sums accumulate in float32 and are rounded once."""
    kernel = weight.shape[2:]
    taps = weight.reshape(weight.shape[0], -1).to(torch.float32)
    total = None
    for number, part in enumerate(kernel_slices(x, kernel, out, stride, dilation)):
        tap = taps[:, number].reshape(-1, *[1] * len(out))
        term = part.to(torch.float32) * tap
        total = term if total is None else total + term
    assert total is not None
    return total.to(x.dtype)


def _convolve_columns(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Return a convolution of any kind, as a batched matmul with the columns of im2col."""
    batch, channels, *_ = x.shape
    kernel, out_channels = weight.shape[2:], weight.shape[0]
    slices = kernel_slices(x, kernel, out, stride, dilation)
    columns = torch.cat([part.reshape(batch, channels, 1, -1) for part in slices], 2)
    columns = columns.reshape(batch * groups, -1, prod(out))
    rows = weight.reshape(1, groups, out_channels // groups, -1).expand(batch, -1, -1, -1)
    result = torch.bmm(rows.reshape(batch * groups, out_channels // groups, -1), columns)
    return result.reshape(batch, out_channels, *out)


def transposed_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Return a transposed convolution, without bias.

    The weight has the shape (input channels, output channels of a group, *kernel).
    """
    kernel = list(weight.shape[2:])
    paddings = list(zip(padding, output_padding, strict=True))
    if is_patchwise(kernel, stride, dilation, groups):
        crop_low = [-pad for pad, _ in paddings]
        crop_high = [extra - pad for pad, extra in paddings]
        return pad_dims(_transposed_patches(x, weight), crop_low, crop_high, 0.0)
    spans = [step * (extent - 1) for step, extent in zip(dilation, kernel, strict=True)]
    low = [span - pad for span, (pad, _) in zip(spans, paddings, strict=True)]
    high = [before + extra for before, (_, extra) in zip(low, paddings, strict=True)]
    padded = pad_dims(insert_zeros(x, stride), low, high, 0.0)
    inputs, outputs = weight.shape[:2]
    flipped = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    flipped = flipped.reshape(groups * outputs, inputs // groups, *kernel)
    flipped = flipped.flip(list(range(2, flipped.dim())))
    return convolve(padded, flipped, [1] * len(kernel), dilation, groups)


def _transposed_patches(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the result of non-overlapping kernels: each element produces one patch of it."""
    batch, channels, *size = x.shape
    outputs, kernel = weight.shape[1], weight.shape[2:]
    rows = x.movedim(1, -1).reshape(-1, channels)
    result = torch.mm(rows, weight.reshape(channels, -1)).reshape(batch, *size, outputs, *kernel)
    dims = len(size)
    order = [axis for dim in range(dims) for axis in (1 + dim, 2 + dims + dim)]
    return result.permute(0, 1 + dims, *order).reshape(
        batch, outputs, *[n * extent for n, extent in zip(size, kernel, strict=True)]
    )

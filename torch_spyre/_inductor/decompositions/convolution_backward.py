"""Decomposition of the gradients of convolutions.

The gradient of the input is another convolution. That of the kernel is a matmul of the gradient of
the output with the columns of im2col.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.convolution import (
    convolve,
    is_patchwise,
    patches,
    transposed_convolution,
)
from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.windows import expand_param, kernel_slices, pad_dims
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


def _kernel_gradient(
    gradient: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Return the gradient of a kernel from a padded input and the gradient of the output."""
    batch, out_channels, *out = gradient.shape
    channels = x.shape[1]
    if is_patchwise(kernel, stride, dilation, groups):
        rows = gradient.movedim(1, 0).reshape(out_channels, -1)
        return torch.mm(rows, patches(x, kernel, out)).reshape(out_channels, channels, *kernel)
    slices = [
        part.reshape(batch, groups, -1, 1, prod(out))
        for part in kernel_slices(x, kernel, out, stride, dilation)
    ]
    columns = torch.cat(slices, 3).movedim(0, 3)
    columns = columns.reshape(groups, -1, batch * prod(out))
    rows = gradient.reshape(batch, groups, out_channels // groups, prod(out)).movedim(0, 2)
    rows = rows.reshape(groups, out_channels // groups, batch * prod(out))
    result = torch.bmm(rows, columns.transpose(1, 2))
    return result.reshape(out_channels, channels // groups, *kernel)


@register_decomposition(aten.convolution_backward.default)
def _convolution_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    is_transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    dims = weight.dim() - 2
    if x.dim() != dims + 2 or x.dtype not in FLOAT_DTYPES or 0 in (*x.shape[1:], *weight.shape):
        return NotImplemented
    stride, padding, dilation = (expand_param(param, dims) for param in (stride, padding, dilation))
    grad_x = grad_weight = grad_bias = None
    if x.shape[0] == 0:
        # The gradients of an empty batch are zeros.
        grad_x = torch.zeros_like(x) if output_mask[0] else None
        grad_weight = torch.zeros_like(weight) if output_mask[1] else None
        grad_bias = x.new_zeros(bias_sizes or gradient.shape[1]) if output_mask[2] else None
        return grad_x, grad_weight, grad_bias
    # A transposed convolution reads its output where a convolution reads its input.
    conv_input, conv_output = (gradient, x) if is_transposed else (x, gradient)
    if output_mask[0] and is_transposed:
        padded = pad_dims(gradient, padding, padding, 0.0)
        grad_x = convolve(padded, weight, stride, dilation, groups)
        for dim, size in enumerate(x.shape[2:], 2):
            # An output padding above the stride yields more windows than x has elements.
            grad_x = grad_x.narrow(dim, 0, size)
    elif output_mask[0]:
        kernel = weight.shape[2:]
        leftover = [
            n - ((count - 1) * step - 2 * pad + hop * (extent - 1) + 1)
            for n, count, step, pad, hop, extent in zip(
                x.shape[2:], gradient.shape[2:], stride, padding, dilation, kernel, strict=True
            )
        ]
        grad_x = transposed_convolution(
            gradient, weight, stride, padding, dilation, leftover, groups
        )
    if output_mask[1]:
        padded = pad_dims(conv_input, padding, padding, 0.0)
        kernel = weight.shape[2:]
        grad_weight = _kernel_gradient(conv_output, padded, kernel, stride, dilation, groups)
    if output_mask[2]:
        grad_bias = gradient.sum([0, *range(2, gradient.dim())])
    return grad_x, grad_weight, grad_bias

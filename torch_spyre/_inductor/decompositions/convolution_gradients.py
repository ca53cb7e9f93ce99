"""Gradients of convolutions, which are convolutions, and of their kernels, which are products.

A gradient of the kernel is a product of what its places saw with the gradient of what became of it.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.convolutions import (
    convolved,
    patches,
    side_by_side,
    transposed_convolution,
)
from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.windows import for_each_dim, padded, places
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
    """Of kernels that see x, padded, and make what the gradient is of."""
    batch, made, *out = gradient.shape
    channels = x.shape[1]
    if side_by_side(kernel, stride, dilation, groups):
        rows = gradient.movedim(1, 0).reshape(made, -1)
        return torch.mm(rows, patches(x, kernel, out)).reshape(made, channels, *kernel)
    parts = [
        part.reshape(batch, groups, -1, 1, prod(out))
        for part in places(x, kernel, out, stride, dilation)
    ]
    columns = torch.cat(parts, 3).movedim(0, 3)
    columns = columns.reshape(groups, -1, batch * prod(out))
    rows = gradient.reshape(batch, groups, made // groups, prod(out)).movedim(0, 2)
    rows = rows.reshape(groups, made // groups, batch * prod(out))
    result = torch.bmm(rows, columns.transpose(1, 2))
    return result.reshape(made, channels // groups, *kernel)


@decomposes(aten.convolution_backward.default)
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
    stride, padding, dilation = (for_each_dim(e, dims) for e in (stride, padding, dilation))
    for_x = for_weight = for_bias = None
    if x.shape[0] == 0:
        # Nothing was seen.
        for_x = torch.zeros_like(x) if output_mask[0] else None
        for_weight = torch.zeros_like(weight) if output_mask[1] else None
        for_bias = x.new_zeros(bias_sizes or gradient.shape[1]) if output_mask[2] else None
        return for_x, for_weight, for_bias
    seen, made = (gradient, x) if is_transposed else (x, gradient)
    if output_mask[0] and is_transposed:
        wide = padded(gradient, padding, padding, 0.0)
        for_x = convolved(wide, weight, stride, dilation, groups)
        for dim, size in enumerate(x.shape[2:], 2):
            # An output padding of more than a step leaves room for another place.
            for_x = for_x.narrow(dim, 0, size)
    elif output_mask[0]:
        kernel = weight.shape[2:]
        left = [
            n - ((count - 1) * step - 2 * pad + hop * (extent - 1) + 1)
            for n, count, step, pad, hop, extent in zip(
                x.shape[2:], gradient.shape[2:], stride, padding, dilation, kernel, strict=True
            )
        ]
        for_x = transposed_convolution(gradient, weight, stride, padding, dilation, left, groups)
    if output_mask[1]:
        wide = padded(seen, padding, padding, 0.0)
        for_weight = _kernel_gradient(made, wide, weight.shape[2:], stride, dilation, groups)
    if output_mask[2]:
        for_bias = gradient.sum([0, *range(2, gradient.dim())])
    return for_x, for_weight, for_bias

"""Decompositions of convolutions into products, and of products of groups of rows.

Where kernels do not overlap, a convolution is a product with what a view shows. With a kernel for
each channel it is a sum over the places of the kernel, elsewhere a product with the places laid
side by side. A transposed one is another convolution, with zeros between the elements of its input
and the kernel turned around.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre._inductor.decompositions.windows import for_each_dim, padded, places, spread
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


@decomposes(aten.convolution.default)
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
        for_each_dim(each, dims) for each in (stride, padding, dilation, output_padding)
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
        # There is nothing to make, but it has a size.
        each = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
        if transposed:
            size = [
                (n - 1) * step - 2 * pad + hop * (extent - 1) + 1
                for n, extent, step, pad, hop in each
            ]
            size = [n + extra for n, extra in zip(size, output_padding, strict=True)]
            return x.new_zeros(0, weight.shape[1] * groups, *size)
        size = [
            (n + 2 * pad - hop * (extent - 1) - 1) // step + 1 for n, extent, step, pad, hop in each
        ]
        return x.new_zeros(0, weight.shape[0], *size)
    if transposed:
        result = transposed_convolution(
            x, weight, stride, padding, dilation, output_padding, groups
        )
    else:
        result = convolved(padded(x, padding, padding, 0.0), weight, stride, dilation, groups)
    if bias is not None:
        result = result + bias.reshape(-1, *[1] * dims)
    return result


def convolved(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Of what is padded already."""
    kernel, size = list(weight.shape[2:]), x.shape[2:]
    spans = [step * (extent - 1) + 1 for step, extent in zip(dilation, kernel, strict=True)]
    out = [(n - span) // step + 1 for n, span, step in zip(size, spans, stride, strict=True)]
    if side_by_side(kernel, stride, dilation, groups):
        return _of_patches(x, weight, out)
    if groups == x.shape[1] == weight.shape[0]:
        return _of_channels(x, weight, out, stride, dilation)
    return _of_columns(x, weight, out, stride, dilation, groups)


def side_by_side(
    kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], groups: int
) -> bool:
    """Do kernels touch, and nowhere overlap?"""
    return groups == 1 and list(kernel) == list(stride) and all(each == 1 for each in dilation)


def _of_patches(x: torch.Tensor, weight: torch.Tensor, out: Sequence[int]) -> torch.Tensor:
    """Kernels that lie side by side: each sees a part of its own."""
    rows = patches(x, weight.shape[2:], out)
    result = torch.mm(rows, weight.reshape(weight.shape[0], -1).t())
    return result.reshape(x.shape[0], *out, -1).movedim(-1, 1).contiguous()


def patches(x: torch.Tensor, kernel: Sequence[int], out: Sequence[int]) -> torch.Tensor:
    """The parts that they see, a row each."""
    batch, channels, *_ = x.shape
    dims = len(out)
    for dim, (count, extent) in enumerate(zip(out, kernel, strict=True)):
        x = x.narrow(2 + dim, 0, count * extent)
    pairs = [each for pair in zip(out, kernel, strict=True) for each in pair]
    parts = x.reshape(batch, channels, *pairs)
    order = [0, *range(2, 2 + 2 * dims, 2), 1, *range(3, 2 + 2 * dims, 2)]
    return parts.permute(order).reshape(batch * prod(out), channels * prod(kernel))


def _of_channels(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> torch.Tensor:
    """A kernel for each channel. Sums are kept in float32, and rounded once."""
    kernel = weight.shape[2:]
    taps = weight.reshape(weight.shape[0], -1).to(torch.float32)
    total = None
    for number, part in enumerate(places(x, kernel, out, stride, dilation)):
        tap = taps[:, number].reshape(-1, *[1] * len(out))
        term = part.to(torch.float32) * tap
        total = term if total is None else total + term
    assert total is not None
    return total.to(x.dtype)


def _of_columns(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    batch, channels, *_ = x.shape
    kernel, made = weight.shape[2:], weight.shape[0]
    seen = places(x, kernel, out, stride, dilation)
    parts = [part.reshape(batch, channels, 1, -1) for part in seen]
    columns = torch.cat(parts, 2).reshape(batch * groups, -1, prod(out))
    factors = weight.reshape(1, groups, made // groups, -1).expand(batch, -1, -1, -1)
    result = torch.bmm(factors.reshape(batch * groups, made // groups, -1), columns)
    return result.reshape(batch, made, *out)


def transposed_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Each element adds its kernel to the result. Kernels are those of (inputs, outputs, *size)."""
    kernel = list(weight.shape[2:])
    more = list(zip(padding, output_padding, strict=True))
    if side_by_side(kernel, stride, dilation, groups):
        result = _patches_of(x, weight)
        return padded(result, [-low for low, _ in more], [extra - low for low, extra in more], 0.0)
    spans = [step * (extent - 1) for step, extent in zip(dilation, kernel, strict=True)]
    low = [span - pad for span, (pad, _) in zip(spans, more, strict=True)]
    high = [before + extra for before, (_, extra) in zip(low, more, strict=True)]
    wide = padded(spread(x, stride), low, high, 0.0)
    inputs, outputs = weight.shape[:2]
    turned = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    turned = turned.reshape(groups * outputs, inputs // groups, *kernel)
    turned = turned.flip(list(range(2, turned.dim())))
    return convolved(wide, turned, [1] * len(kernel), dilation, groups)


def _patches_of(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Kernels that do not overlap: each element makes a part of its own."""
    batch, channels, *size = x.shape
    outputs, kernel = weight.shape[1], weight.shape[2:]
    rows = x.movedim(1, -1).reshape(-1, channels)
    made = torch.mm(rows, weight.reshape(channels, -1)).reshape(batch, *size, outputs, *kernel)
    dims = len(size)
    pairs = [each for dim in range(dims) for each in (1 + dim, 2 + dims + dim)]
    parts = made.permute(0, 1 + dims, *pairs)
    return parts.reshape(
        batch, outputs, *[n * extent for n, extent in zip(size, kernel, strict=True)]
    )


@decomposes(aten._grouped_mm.default)
def _grouped_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Products of groups: `offs` says where each group of rows, or of summed places, ends."""
    if bias is not None:
        return NotImplemented
    if offs is None:
        result = torch.bmm(left, right)
    elif left.dim() == 2 and right.dim() == 3:
        result = _rows_by_group(left, right, offs)
    elif left.dim() == 3:
        result = _rows_by_group(right.t(), left.transpose(1, 2), offs).t()
    else:
        places = _members(left.shape[1], offs)
        parts = torch.where(places.unsqueeze(1), left, torch.zeros_like(left))
        result = torch.mm(parts.reshape(-1, left.shape[1]), right)
        result = result.reshape(offs.shape[0], left.shape[0], -1)
    return result if out_dtype is None else result.to(out_dtype)


def _members(count: int, offs: torch.Tensor) -> torch.Tensor:
    """Which of so many belong to each group."""
    place = torch.arange(count, device=offs.device)
    ends = offs.unsqueeze(-1)
    starts = aten.constant_pad_nd(offs[:-1], [1, 0], 0).unsqueeze(-1)
    member: torch.Tensor = (place >= starts) & (place < ends)
    return member


def _rows_by_group(rows: torch.Tensor, factors: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Each row times the factor of its group.

    Few rows take the factors they need. Many stand once for each group, as zeros where they do not
    belong: then all is one product, which reads each factor once.
    """
    groups, inner, columns = factors.shape
    if 3 * rows.shape[0] <= groups:
        place = torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1)
        group = (place >= offs).to(torch.int32).sum(-1).clamp(max=groups - 1)
        return torch.bmm(rows.unsqueeze(1), factors[group]).squeeze(1)
    member = _members(rows.shape[0], offs).t().unsqueeze(-1)
    parts = torch.where(member, rows.unsqueeze(1), torch.zeros_like(rows).unsqueeze(1))
    return torch.mm(parts.reshape(rows.shape[0], groups * inner), factors.reshape(-1, columns))

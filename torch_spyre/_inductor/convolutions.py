"""Decompositions of convolutions into products, and of products of groups of rows.

Where kernels do not overlap, a convolution is a product with what a view shows. With a kernel for
each channel it is a sum over the places of the kernel, elsewhere a product with the places laid
side by side.
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import torch

from torch_spyre._inductor.decompositions import decomposes
from torch_spyre._inductor.op_functions import FLOATS

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
    if transposed or x.dim() != dims + 2 or x.dtype not in FLOATS or x.numel() == 0:
        return NotImplemented
    stride, padding, dilation = (
        list(each) * dims if len(each) == 1 else list(each) for each in (stride, padding, dilation)
    )
    if any(padding):
        x = aten.constant_pad_nd(x, [each for pad in reversed(padding) for each in (pad, pad)], 0.0)
    kernel, size = weight.shape[2:], x.shape[2:]
    spans = [step * (extent - 1) + 1 for step, extent in zip(dilation, kernel, strict=True)]
    out = [(n - span) // step + 1 for n, span, step in zip(size, spans, stride, strict=True)]
    if any(each <= 0 for each in out):
        return NotImplemented
    if groups == 1 and list(kernel) == stride and all(each == 1 for each in dilation):
        result = _of_patches(x, weight, out)
    elif groups == x.shape[1] == weight.shape[0]:
        result = _of_channels(x, weight, out, stride, dilation)
    else:
        result = _of_columns(x, weight, out, stride, dilation, groups)
    if bias is not None:
        result = result + bias.reshape(-1, *[1] * dims)
    return result


def _of_patches(x: torch.Tensor, weight: torch.Tensor, out: Sequence[int]) -> torch.Tensor:
    """Kernels that lie side by side: each sees a part of its own."""
    batch, channels, *_ = x.shape
    kernel, dims = weight.shape[2:], len(out)
    for dim, (count, extent) in enumerate(zip(out, kernel, strict=True)):
        x = x.narrow(2 + dim, 0, count * extent)
    pairs = [each for pair in zip(out, kernel, strict=True) for each in pair]
    parts = x.reshape(batch, channels, *pairs)
    order = [0, *range(2, 2 + 2 * dims, 2), 1, *range(3, 2 + 2 * dims, 2)]
    rows = parts.permute(order).reshape(batch * prod(out), channels * prod(kernel))
    result = torch.mm(rows, weight.reshape(weight.shape[0], -1).t())
    return result.reshape(batch, *out, -1).movedim(-1, 1).contiguous()


def _places(
    x: torch.Tensor,
    kernel: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> list[torch.Tensor]:
    """For each place of the kernel, what it sees from all positions."""
    found = []
    for place in product(*map(range, kernel)):
        part = x
        for dim, (at, count) in enumerate(zip(place, out, strict=True)):
            first = at * dilation[dim]
            last = first + (count - 1) * stride[dim] + 1
            part = aten.slice(part, 2 + dim, first, last, stride[dim])
        found.append(part)
    return found


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
    for number, part in enumerate(_places(x, kernel, out, stride, dilation)):
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
    places = _places(x, kernel, out, stride, dilation)
    parts = [part.reshape(batch, channels, 1, -1) for part in places]
    columns = torch.cat(parts, 2).reshape(batch * groups, -1, prod(out))
    factors = weight.reshape(1, groups, made // groups, -1).expand(batch, -1, -1, -1)
    result = torch.bmm(factors.reshape(batch * groups, made // groups, -1), columns)
    return result.reshape(batch, made, *out)


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

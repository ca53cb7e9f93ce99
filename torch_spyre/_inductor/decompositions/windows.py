"""Slices of a tensor that sliding windows read, and the reverse map from elements to windows.

Kernel sizes, strides, paddings and dilations are those of the last dims of a tensor: the dims that
windows slide over.
"""

from collections.abc import Sequence
from itertools import product

import torch

aten = torch.ops.aten


def expand_param(values: Sequence[int], num_dims: int) -> list[int]:
    """Return one value for each dim; PyTorch accepts a single value for all of them."""
    return list(values) * num_dims if len(values) == 1 else list(values)


def pad_dims(
    x: torch.Tensor, low: Sequence[int], high: Sequence[int], value: float
) -> torch.Tensor:
    """Pad the last dims by `low` and `high` elements; negative amounts crop."""
    if not any(low) and not any(high):
        return x
    pairs = zip(reversed(low), reversed(high), strict=True)
    amounts = [amount for pair in pairs for amount in pair]
    result: torch.Tensor = aten.constant_pad_nd(x, amounts, value)
    return result


def kernel_slices(
    x: torch.Tensor,
    kernel: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> list[torch.Tensor]:
    """Return, for each position in the kernel, the elements it reads in all windows."""
    slices = []
    first_dim = x.dim() - len(out)
    for position in product(*map(range, kernel)):
        part = x
        for dim, (offset, count) in enumerate(zip(position, out, strict=True)):
            first = offset * dilation[dim]
            last = first + (count - 1) * stride[dim] + 1
            part = aten.slice(part, first_dim + dim, first, last, stride[dim])
        slices.append(part)
    return slices


def repeat_interleave(x: torch.Tensor, dim: int, repeats: int) -> torch.Tensor:
    """Repeat each element along a dim, as `torch.repeat_interleave` does, through a view."""
    if repeats == 1:
        return x
    size = [*x.shape]
    expanded = x.unsqueeze(dim + 1).expand(*size[: dim + 1], repeats, *size[dim + 1 :])
    size[dim] *= repeats
    return expanded.reshape(size)


def broadcast_along(vector: torch.Tensor, dim: int) -> torch.Tensor:
    """Reshape a vector so that it broadcasts along `dim`, which is negative."""
    return vector.reshape(-1, *[1] * (-1 - dim))


def covering_windows(
    x: torch.Tensor, dim: int, size: int, span: int, stride: int, padding: int, fill: float
) -> list[torch.Tensor]:
    """Return, for each of `size` elements, the values in x of the windows that may cover it.

    x has one value for each window along `dim`, which is negative; `span` is the dilated length of
    a window. The windows of an element are in order, the earliest first; `fill` stands for windows
    that do not exist.
    """
    max_windows = -(-span // stride)
    later = [0] * (-1 - dim)
    repeated = repeat_interleave(x, x.dim() + dim, stride)
    low = (max_windows - 1) * stride - padding
    high = size + padding - repeated.shape[dim]
    repeated = pad_dims(repeated, [low, *later], [high, *later], fill)
    return [repeated.narrow(dim, number * stride, size) for number in range(max_windows)]


def insert_zeros(x: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """Insert zeros along the last dims, so that elements are `stride` positions apart."""
    for position, step in enumerate(stride):
        if step == 1:
            continue
        dim = x.dim() - len(stride) + position
        repeated = repeat_interleave(x, dim, step)
        index = torch.arange(repeated.shape[dim], device=x.device)
        is_element = broadcast_along(index % step == 0, dim - x.dim())
        x = torch.where(is_element, repeated, 0.0).narrow(dim, 0, repeated.shape[dim] - step + 1)
    return x

"""What windows that slide over a tensor see, and how what they saw goes back to its places.

Sizes, steps and the like are given for the last dims of a tensor: those that windows slide over.
"""

from collections.abc import Sequence
from itertools import product

import torch

aten = torch.ops.aten


def for_each_dim(values: Sequence[int], dims: int) -> list[int]:
    """PyTorch lets one number stand for all."""
    return list(values) * dims if len(values) == 1 else list(values)


def padded(x: torch.Tensor, low: Sequence[int], high: Sequence[int], value: float) -> torch.Tensor:
    """With so much before and behind each dim, or less where that is negative."""
    if not any(low) and not any(high):
        return x
    pairs = zip(reversed(low), reversed(high), strict=True)
    result: torch.Tensor = aten.constant_pad_nd(x, [each for pair in pairs for each in pair], value)
    return result


def places(
    x: torch.Tensor,
    kernel: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> list[torch.Tensor]:
    """For each place of the kernel, what it sees from all positions."""
    found = []
    first_dim = x.dim() - len(out)
    for place in product(*map(range, kernel)):
        part = x
        for dim, (at, count) in enumerate(zip(place, out, strict=True)):
            first = at * dilation[dim]
            last = first + (count - 1) * stride[dim] + 1
            part = aten.slice(part, first_dim + dim, first, last, stride[dim])
        found.append(part)
    return found


def repeated(x: torch.Tensor, dim: int, times: int) -> torch.Tensor:
    """Each element so often, one after the other."""
    if times == 1:
        return x
    size = [*x.shape]
    wide = x.unsqueeze(dim + 1).expand(*size[: dim + 1], times, *size[dim + 1 :])
    size[dim] *= times
    return wide.reshape(size)


def along(x: torch.Tensor, dim: int) -> torch.Tensor:
    """A vector as one along a dim, counted from the end, of what it meets."""
    return x.reshape(-1, *[1] * (-1 - dim))


def seen_by(
    x: torch.Tensor, dim: int, size: int, span: int, stride: int, padding: int, fill: float
) -> list[torch.Tensor]:
    """For each of so many elements what the windows have, given by x, that may see it.

    The dim counts from the end. Windows come one after the other, the earliest first; where there
    is none stands the filling.
    """
    most = -(-span // stride)
    later = [0] * (-1 - dim)
    wide = repeated(x, x.dim() + dim, stride)
    low = (most - 1) * stride - padding
    high = size + padding - wide.shape[dim]
    wide = padded(wide, [low, *later], [high, *later], fill)
    return [wide.narrow(dim, each * stride, size) for each in range(most)]


def spread(x: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """With zeros between the elements, so that each is a step from the next."""
    for position, step in enumerate(stride):
        if step == 1:
            continue
        dim = x.dim() - len(stride) + position
        wide = repeated(x, dim, step)
        place = torch.arange(wide.shape[dim], device=x.device)
        holds = along(place % step == 0, dim - x.dim())
        x = torch.where(holds, wide, 0.0).narrow(dim, 0, wide.shape[dim] - step + 1)
    return x

"""Decompositions of sequences between two ends, which may be tensors, and of places in order."""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten
End = torch.Tensor | float


@decomposes(
    aten.linspace.default,
    aten.linspace.Tensor_Tensor,
    aten.linspace.Tensor_Scalar,
    aten.linspace.Scalar_Tensor,
)
def _linspace(
    start: End,
    end: End,
    steps: int,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    torch._check(steps >= 0, lambda: "number of steps must be non-negative")
    dtype = dtype or torch.get_default_dtype()
    ends = [each for each in (start, end) if isinstance(each, torch.Tensor)]
    torch._check(
        all(each.dim() == 0 for each in ends),
        lambda: "linspace only supports 0-dimensional start and end tensors",
    )
    device = device or (ends[0].device if ends else None)
    low, high = (_end(each, dtype) for each in (start, end))
    place = torch.arange(steps, dtype=torch.float32, device=device)
    step = (high - low) / max(steps - 1, 1)
    # From the nearer end, so that both are met.
    found = torch.where(
        place < (steps + 1) // 2, low + step * place, high - step * (steps - 1 - place)
    )
    return found.to(dtype)


def _end(end: End, dtype: torch.dtype) -> End:
    """As the results would have it: whole, if they are."""
    if isinstance(end, torch.Tensor):
        return (end if dtype.is_floating_point else end.to(dtype)).to(torch.float32)
    return end if dtype.is_floating_point else int(end)


@decomposes(
    aten.logspace.default,
    aten.logspace.Tensor_Tensor,
    aten.logspace.Tensor_Scalar,
    aten.logspace.Scalar_Tensor,
)
def _logspace(
    start: End,
    end: End,
    steps: int,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    # PyTorch's own would compute in float64, which the card has not.
    exponents = torch.linspace(start, end, steps, dtype=torch.float32, device=device)
    return torch.pow(base, exponents).to(dtype or torch.get_default_dtype())


@decomposes(aten.nonzero_static.default)
def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """The first places of what is not zero, a row each; rows that are left over are filled."""
    torch._check(size >= 0, lambda: "nonzero_static: size must be an non-negative integer")
    if 0 in (size, x.dim(), x.numel()):
        return x.new_full((size, x.dim()), fill_value, dtype=torch.int64)
    flags = (x != 0).reshape(-1)
    # Elements that are not asked for share the place behind the others.
    rank = torch.where(flags, torch.cumsum(flags, 0) - 1, size).clamp(max=size)
    numbers = torch.arange(flags.shape[0], device=x.device)
    places = x.new_full((size + 1,), -1, dtype=torch.int64).scatter(0, rank, numbers)[:size]
    found, columns, rest = places >= 0, [], places
    for length in reversed(x.shape):
        columns.append(torch.where(found, rest % length, fill_value))
        rest = torch.div(rest, length, rounding_mode="floor")
    return torch.stack(columns[::-1], -1)

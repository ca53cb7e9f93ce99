"""Decompositions of sequences between two ends, which may be tensors, and of places in order."""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten
End = torch.Tensor | float
# Numbers of the points between two integers whose squares the card's integers hold.
_MOST_EXACT_STEPS = 46_340


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
    dtype = dtype or torch.get_default_dtype()
    low, high, device = _checked_ends("linspace", start, end, steps, dtype, device)
    if not dtype.is_floating_point and steps <= _MOST_EXACT_STEPS:
        whole, rest = _exact_steps(low, high, steps, device)
        # Towards zero, as conversions go.
        return (whole + ((whole < 0) & (rest != 0))).to(dtype)
    low, high = (_in_float32(each) for each in (low, high))
    place = torch.arange(steps, dtype=torch.float32, device=device)
    step = (high - low) / max(steps - 1, 1)
    # From the nearer end, so that both are met.
    found = torch.where(
        place < (steps + 1) // 2, low + step * place, high - step * (steps - 1 - place)
    )
    return found.to(dtype)


def _checked_ends(
    name: str, start: End, end: End, steps: int, dtype: torch.dtype, device: Any
) -> tuple[End, End, Any]:
    """The ends as the results would have them, whole if they are; and where they shall be."""
    torch._check(steps >= 0, lambda: "number of steps must be non-negative")
    tensors = [each for each in (start, end) if isinstance(each, torch.Tensor)]
    torch._check(
        all(each.dim() == 0 for each in tensors),
        lambda: f"{name} only supports 0-dimensional start and end tensors",
    )

    def as_result(end: End) -> End:
        if dtype.is_floating_point:
            return end
        return end.to(dtype) if isinstance(end, torch.Tensor) else int(end)

    return as_result(start), as_result(end), device or (tensors[0].device if tensors else None)


def _in_float32(end: End) -> End:
    return end.to(torch.float32) if isinstance(end, torch.Tensor) else end


def _exact_steps(low: End, high: End, steps: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Points between integers as the whole numbers below them, and how many `steps - 1`ths above.

    A step as a float32 is off, and integers are cut off at their points.
    """
    parts = max(steps - 1, 1)
    place = torch.arange(steps, dtype=torch.int32, device=device)
    span = high - low
    each, rest = (
        (_floor_divided(span, parts), torch.remainder(span, parts))
        if isinstance(span, torch.Tensor)
        else divmod(span, parts)
    )
    return (
        low + each * place + _floor_divided(rest * place, parts),
        torch.remainder(rest * place, parts),
    )


def _floor_divided(number: torch.Tensor, divisor: int) -> torch.Tensor:
    return torch.div(number, divisor, rounding_mode="floor")


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
    dtype = dtype or torch.get_default_dtype()
    low, high, device = _checked_ends("logspace", start, end, steps, dtype, device)
    if steps == 1:
        low = high = start  # alone it is not cut off, whatever the dtype
    if dtype.is_floating_point or steps == 1 or steps > _MOST_EXACT_STEPS:
        exponents = torch.linspace(low, high, steps, dtype=torch.float32, device=device)
        return torch.pow(base, exponents).to(dtype)
    whole, rest = _exact_steps(low, high, steps, device)
    # Small exponents have small errors.
    return (torch.pow(base, whole.to(torch.float32)) * torch.pow(base, rest / (steps - 1))).to(
        dtype
    )


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

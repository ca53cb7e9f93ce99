"""Decompositions of `linspace` and `logspace`, whose ends may be 0-d tensors."""

from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten
End = torch.Tensor | float
# The number of steps whose square fits in int32, so that integer steps are exact.
_MAX_EXACT_STEPS = 46_340


@register_decomposition(
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
    if not dtype.is_floating_point and steps <= _MAX_EXACT_STEPS:
        floors, remainders = _exact_steps(low, high, steps, device)
        # Conversions truncate towards zero.
        return (floors + ((floors < 0) & (remainders != 0))).to(dtype)
    low, high = (_to_float32(value) for value in (low, high))
    position = torch.arange(steps, dtype=torch.float32, device=device)
    step = (high - low) / max(steps - 1, 1)
    # Computed from the nearer end, so that both ends are exact.
    result = torch.where(
        position < (steps + 1) // 2, low + step * position, high - step * (steps - 1 - position)
    )
    return result.to(dtype)


def _checked_ends(
    name: str, start: End, end: End, steps: int, dtype: torch.dtype, device: Any
) -> tuple[End, End, Any]:
    """Check the arguments; return the ends, truncated for integer results, and the device."""
    torch._check(steps >= 0, lambda: "number of steps must be non-negative")
    tensors = [value for value in (start, end) if isinstance(value, torch.Tensor)]
    torch._check(
        all(tensor.dim() == 0 for tensor in tensors),
        lambda: f"{name} only supports 0-dimensional start and end tensors",
    )

    def truncated(end: End) -> End:
        if dtype.is_floating_point:
            return end
        if isinstance(end, torch.Tensor):
            # Differences of narrow integers could overflow.
            return end.to(dtype).to(torch.promote_types(dtype, torch.int32))
        # As on the CPU, negative ends wrap around in the unsigned dtype.
        return int(end) % 256 if dtype is torch.uint8 else int(end)

    return truncated(start), truncated(end), device or (tensors[0].device if tensors else None)


def _to_float32(end: End) -> End:
    return end.to(torch.float32) if isinstance(end, torch.Tensor) else end


def _exact_steps(low: End, high: End, steps: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the floors of points between integer ends, and the remainders in `steps - 1`ths.

    A step in float32 has a rounding error, which truncation to an integer would magnify.
    """
    intervals = max(steps - 1, 1)
    position = torch.arange(steps, dtype=torch.int32, device=device)
    span = high - low
    step, remainder = (
        (_floor_divide(span, intervals), torch.remainder(span, intervals))
        if isinstance(span, torch.Tensor)
        else divmod(span, intervals)
    )
    return (
        low + step * position + _floor_divide(remainder * position, intervals),
        torch.remainder(remainder * position, intervals),
    )


def _floor_divide(dividend: torch.Tensor, divisor: int) -> torch.Tensor:
    return torch.div(dividend, divisor, rounding_mode="floor")


@register_decomposition(
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
    # PyTorch's own computes in float64, which the card does not support.
    dtype = dtype or torch.get_default_dtype()
    low, high, device = _checked_ends("logspace", start, end, steps, dtype, device)
    if steps == 1:
        low = high = start  # a single point is not truncated, whatever the dtype
    if dtype.is_floating_point or steps == 1 or steps > _MAX_EXACT_STEPS:
        exponents = torch.linspace(low, high, steps, dtype=torch.float32, device=device)
        return torch.pow(base, exponents).to(dtype)
    floors, remainders = _exact_steps(low, high, steps, device)
    # The power of the fraction has a small error, as the exponent is below 1.
    integer_powers = torch.pow(base, floors.to(torch.float32))
    return (integer_powers * torch.pow(base, remainders / (steps - 1))).to(dtype)

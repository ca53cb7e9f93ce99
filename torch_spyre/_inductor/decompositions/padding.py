"""Decompositions of reflection and replication padding, and of their gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.interpolate import Tap, apply_taps, apply_taps_backward
from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import FLOAT_DTYPES

aten = torch.ops.aten


def _reflect(index: torch.Tensor, size: int) -> torch.Tensor:
    return (size - 1) - ((size - 1) - index.abs()).abs()


def _replicate(index: torch.Tensor, size: int) -> torch.Tensor:
    return index.clamp(0, size - 1)


def _padding(
    dims: int, source_index: Callable[[torch.Tensor, int], torch.Tensor]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return an op that pads the last `dims` dims, and its gradient."""

    def padding_taps(
        size: Sequence[int], padding: Sequence[int], dim: int, device: torch.device
    ) -> list[Tap] | None:
        low, high = padding[2 * (-1 - dim) : 2 * (-1 - dim) + 2]
        index = torch.arange(-low, size[dim] + high, dtype=torch.int32, device=device)
        return [(source_index(index, size[dim]), None)] if low or high else None

    def pad(x: torch.Tensor, padding: Sequence[int]) -> Any:
        if 0 in x.shape[-dims:]:
            return NotImplemented
        result = x
        for dim in range(-dims, 0):
            taps = padding_taps(x.shape, padding, dim, x.device)
            result = result if taps is None else apply_taps(result, dim, taps)
        return result.clone() if result is x else result

    def backward(gradient: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> Any:
        if x.dtype not in FLOAT_DTYPES or gradient.numel() == 0:
            return NotImplemented
        result = gradient.to(torch.float32)
        for dim in range(-dims, 0):
            taps = padding_taps(x.shape, padding, dim, x.device)
            if taps is not None:
                result = apply_taps_backward(result, dim, x.shape[dim], taps)
        return result.to(x.dtype).contiguous()

    return pad, backward


for _kind, _source_index in (("reflection", _reflect), ("replication", _replicate)):
    for _dims in (1, 2, 3):
        _forward, _backward = _padding(_dims, _source_index)
        register_decomposition(getattr(aten, f"{_kind}_pad{_dims}d").default)(_forward)
        register_decomposition(getattr(aten, f"{_kind}_pad{_dims}d_backward").default)(_backward)

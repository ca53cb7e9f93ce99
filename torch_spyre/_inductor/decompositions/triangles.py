"""Indices of triangles, counted in integers: Inductor takes roots in float64 instead."""

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten


@decomposes(aten.tril_indices.default)
def _lower(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
    return _places(row, lambda each: (0 * each, each + offset + 1), col, **options)


@decomposes(aten.triu_indices.default)
def _upper(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
    return _places(row, lambda each: (each + offset, 0 * each + col), col, **options)


def _places(
    rows: int,
    span_of: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    columns: int,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Row and column of every place in a row's span, from its first column to before its last."""

    def spans(device: Any) -> tuple[torch.Tensor, torch.Tensor]:
        begin, end = (each.clamp(0, columns) for each in span_of(torch.arange(rows, device=device)))
        return begin, (end - begin).clamp(min=0)

    with torch.utils._python_dispatch._disable_current_modes():
        # How many there are is known before anything runs.
        count = int(spans("cpu")[1].sum())
    dtype = dtype or torch.long
    if count == 0:
        return torch.empty(2, 0, dtype=dtype, device=device)
    begin, length = spans(device)
    ends = torch.cumsum(length, 0)
    number = torch.arange(count, device=device)
    row = torch.searchsorted(ends, number, right=True)
    column = number - (ends - length)[row] + begin[row]
    return torch.stack([row, column]).to(dtype)

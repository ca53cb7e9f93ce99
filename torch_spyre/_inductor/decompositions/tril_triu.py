"""Decompositions of `tril_indices` and `triu_indices`.

They count in integers; Inductor's own compute square roots in float64.
"""

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten


@register_decomposition(aten.tril_indices.default)
def _lower(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
    return _indices(row, lambda rows: (0 * rows, rows + offset + 1), col, **options)


@register_decomposition(aten.triu_indices.default)
def _upper(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
    return _indices(row, lambda rows: (rows + offset, 0 * rows + col), col, **options)


def _indices(
    rows: int,
    column_range: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    columns: int,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Return the rows and columns of the elements in a range of columns for each row."""

    def column_ranges(device: Any) -> tuple[torch.Tensor, torch.Tensor]:
        bounds = column_range(torch.arange(rows, device=device))
        begin, end = (bound.clamp(0, columns) for bound in bounds)
        return begin, (end - begin).clamp(min=0)

    with torch.utils._python_dispatch._disable_current_modes():
        # The size of the result must be known before anything runs.
        count = int(column_ranges("cpu")[1].sum())
    dtype = dtype or torch.long
    if count == 0:
        return torch.empty(2, 0, dtype=dtype, device=device)
    begin, length = column_ranges(device)
    ends = torch.cumsum(length, 0)
    position = torch.arange(count, device=device)
    row = torch.searchsorted(ends, position, right=True)
    column = position - (ends - length)[row] + begin[row]
    return torch.stack([row, column]).to(dtype)

"""`nonzero` and other ops whose result has a data-dependent size.

The card counts and selects the elements; the host reads the count.
"""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.ops.plans import Plan

_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
_MASKED_SCATTER = ("aten::masked_scatter", "aten::masked_scatter_")


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """Return the indices of nonzero elements, one row per element, in row-major order."""
    flat = _flat_indices(x != 0)
    indices = torch.empty((x.dim(), flat.shape[0]), dtype=torch.int64, device=x.device)
    for dim in reversed(range(x.dim())):
        size = x.shape[dim]
        indices[dim] = flat % size
        flat = flat // size
    return indices.t()


def masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    values, mask = torch.broadcast_tensors(x, mask)
    flat: torch.Tensor = values.reshape(-1)
    return flat.index_select(0, _flat_indices(mask))


def repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    """Return the index of every element, repeated `repeats[index]` times."""
    if repeats.dim() != 1:
        raise RuntimeError(
            f"repeat_interleave only accepts 1D vector as repeat, got {repeats.dim()} dimensions"
        )
    if repeats.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"repeats has to be Long or Int tensor, got {repeats.dtype}")
    if repeats.shape[0] == 0:
        return torch.empty_like(repeats)
    ends = repeats.cumsum(0)
    min_repeats, total = int(repeats.min().item()), int(ends[-1].item())
    if min_repeats < 0:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"allocated size does not match required size: {output_size} and {total}"
        )
    positions = torch.arange(total, device=repeats.device)
    return torch.searchsorted(ends, positions, right=True).to(repeats.dtype)


def assert_async(condition: torch.Tensor, message: str = "assertion failed") -> None:
    if condition.numel() != 1:
        count = condition.numel()
        raise RuntimeError(f"_assert_async expects one element, got a tensor of {count}")
    if not condition.item():
        raise RuntimeError(message)


def with_check_of_source(overload: torch._ops.OpOverload, args: Sequence[Any], plan: Plan) -> Plan:
    """Return the plan of a `masked_scatter` that may have too few source elements with a check.

    The kernel would report an index out of bounds, and later.
    """
    if overload._schema.name not in _MASKED_SCATTER:
        return plan
    x, mask, source = args[:3]
    num_elements = max(x.numel(), mask.numel())
    if source.numel() >= num_elements or mask.dtype is not torch.bool:
        return plan

    def checked(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        x, mask, source = args[:3]
        num_selected = mask.expand_as(x).sum() if mask.dim() <= x.dim() else mask.sum()
        if int(num_selected.item()) > source.numel():
            raise RuntimeError("Number of elements of source < number of ones in mask")
        return plan(args, kwargs)

    return checked


def plan_mask_indexing(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """Return a plan that indexes by the nonzero elements of masks; None if no index is a mask."""
    if overload._schema.name not in _INDEXING:
        return None
    masks = [index for index in args[1] if index is not None and index.dtype in MASK_DTYPES]
    if not masks or any(mask.dim() == 0 for mask in masks):
        return None

    def by_nonzero_indices(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        x, indices, *remaining_args = args
        new_indices: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in MASK_DTYPES:
                new_indices.append(index)
                continue
            _check_shape(x, len(new_indices), index)
            new_indices += index.nonzero().unbind(1)
        return overload(x, new_indices, *remaining_args, **kwargs)

    return by_nonzero_indices


def _check_shape(x: torch.Tensor, first_dim: int, mask: torch.Tensor) -> None:
    for dim, size in enumerate(mask.shape):
        if first_dim + dim >= x.dim():
            raise IndexError(
                f"too many indices for tensor of dimension {x.dim()}: a mask has {mask.dim()}"
            )
        if x.shape[first_dim + dim] != size:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {dim} does not match the "
                f"shape of the indexed tensor {list(x.shape)} at index {first_dim + dim}"
            )


def _flat_indices(mask: torch.Tensor) -> torch.Tensor:
    """Return the row-major indices of the elements that are True."""
    flat = _with_default_layout(mask.reshape(-1))
    count = int(flat.sum().item()) if flat.numel() else 0
    if count == 0:
        return torch.empty(0, dtype=torch.int64, device=mask.device)
    indices = torch.arange(flat.shape[0], device=mask.device)
    if count == flat.shape[0]:
        return indices
    # Elements that are False all write to one position behind the result.
    rank = torch.where(flat, torch.cumsum(flat, 0) - 1, count)
    result = torch.zeros(count + 1, dtype=torch.int64, device=mask.device)
    return result.scatter(0, rank, indices)[:count]


def _with_default_layout(x: torch.Tensor) -> torch.Tensor:
    """Return a copy in the default layout: not all kernels accept that of a flattened tensor."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)

"""Ops whose result is as large as data says: the card counts and picks, the count is read back."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.ops.plans import Plan

_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """The places of what is not zero, a row each, in order."""
    flat = _places_of(x != 0)
    places = torch.empty((x.dim(), flat.shape[0]), dtype=torch.int64, device=x.device)
    for dim in reversed(range(x.dim())):
        size = x.shape[dim]
        places[dim] = flat % size
        flat = flat // size
    return places.t()


def masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    values, shows = torch.broadcast_tensors(x, mask)
    flat: torch.Tensor = values.reshape(-1)
    return flat.index_select(0, _places_of(shows))


def repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    """Each number from 0 on as often as `repeats` says: what indexes the elements to repeat."""
    if repeats.dim() != 1:
        raise RuntimeError(
            f"repeat_interleave only accepts 1D vector as repeat, got {repeats.dim()} dimensions"
        )
    if repeats.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"repeats has to be Long or Int tensor, got {repeats.dtype}")
    if repeats.shape[0] == 0:
        return torch.empty_like(repeats)
    ends = repeats.cumsum(0)
    least, total = (int(each) for each in (repeats.min(), ends[-1]))
    if least < 0:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"allocated size does not match required size: {output_size} and {total}"
        )
    numbers = torch.arange(total, device=repeats.device)
    return torch.searchsorted(ends, numbers, right=True).to(repeats.dtype)


def assert_async(condition: torch.Tensor, message: str = "assertion failed") -> None:
    if condition.numel() != 1:
        count = condition.numel()
        raise RuntimeError(f"_assert_async expects one element, got a tensor of {count}")
    if not bool(condition):
        raise RuntimeError(message)


def plan_by_places(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """How to index by flags: by the places of those that are set. None if there are no flags."""
    if overload._schema.name not in _INDEXING:
        return None
    flags = [each for each in args[1] if each is not None and each.dtype in MASK_DTYPES]
    if not flags or any(each.dim() == 0 for each in flags):
        return None

    def by_places(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        x, indices, *others = args
        places: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in MASK_DTYPES:
                places.append(index)
                continue
            _check_shape(x, len(places), index)
            places += index.nonzero().unbind(1)
        return overload(x, places, *others, **kwargs)

    return by_places


def _check_shape(x: torch.Tensor, first: int, flags: torch.Tensor) -> None:
    for dim, size in enumerate(flags.shape):
        if first + dim >= x.dim():
            raise IndexError(
                f"too many indices for tensor of dimension {x.dim()}: a mask has {flags.dim()}"
            )
        if x.shape[first + dim] != size:
            raise IndexError(
                f"The shape of the mask {list(flags.shape)} at index {dim} does not match the "
                f"shape of the indexed tensor {list(x.shape)} at index {first + dim}"
            )


def _places_of(flags: torch.Tensor) -> torch.Tensor:
    """Numbers of the elements that are set, counted through all dims, in order."""
    flat = _in_plain_layout(flags.reshape(-1))
    count = int(flat.sum()) if flat.numel() else 0
    if count == 0:
        return torch.empty(0, dtype=torch.int64, device=flags.device)
    numbers = torch.arange(flat.shape[0], device=flags.device)
    if count == flat.shape[0]:
        return numbers
    # Elements that are not set share the place behind the others.
    rank = torch.where(flat, torch.cumsum(flat, 0) - 1, count)
    places = torch.zeros(count + 1, dtype=torch.int64, device=flags.device)
    return places.scatter(0, rank, numbers)[:count]


def _in_plain_layout(x: torch.Tensor) -> torch.Tensor:
    """What is flattened lies in rows, and not every kernel takes it so."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)

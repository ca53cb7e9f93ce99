"""Ops whose result is as large as data says: the card counts and picks, the count is read back."""

import torch


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """The places of what is not zero, a row each, in order."""
    flat = _places_of(x != 0)
    rows = torch.empty((flat.shape[0], x.dim()), dtype=torch.int64, device=x.device)
    for dim in reversed(range(x.dim())):
        size = x.shape[dim]
        rows[:, dim] = flat % size
        flat = flat // size
    return rows


def masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    values, shows = torch.broadcast_tensors(x, mask)
    flat: torch.Tensor = values.reshape(-1)
    return flat.index_select(0, _places_of(shows))


def assert_async(condition: torch.Tensor, message: str = "assertion failed") -> None:
    if condition.numel() != 1:
        count = condition.numel()
        raise RuntimeError(f"_assert_async expects one element, got a tensor of {count}")
    if not bool(condition):
        raise RuntimeError(message)


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

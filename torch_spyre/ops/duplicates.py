"""`unique` and its like: the card sorts, compares neighbours and counts; sizes are read back."""

import torch


def unique(
    x: torch.Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The different elements, where each element is among them, and how often it occurs."""
    values, order = x.reshape(-1).sort(stable=True)
    result, group, counts = _without_repeats(values, 0, return_inverse, return_counts)
    if not return_inverse:
        return result, group, counts
    inverse = torch.empty_like(group).scatter(0, order, group) if group.numel() else group
    return result, inverse.reshape(x.shape), counts


def unique_consecutive(
    x: torch.Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if dim is not None and x.dim() > 0:
        return _without_repeats(x, dim, return_inverse, return_counts)
    found = _without_repeats(x.reshape(-1), 0, return_inverse, return_counts)
    result, group, counts = found
    return result, group.reshape(x.shape) if return_inverse else group, counts


def _without_repeats(
    x: torch.Tensor, dim: int, with_groups: bool, with_counts: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Less what equals its neighbour before; the number of each one's group; sizes of groups."""
    length, device = x.shape[dim], x.device
    none = torch.empty(0, dtype=torch.int64, device=device)
    if list(x.shape).count(0) > (length == 0):
        raise RuntimeError(
            f"unique along dim {dim} of a tensor of shape {list(x.shape)}: that must be the only "
            "one of size 0"
        )
    if length == 0:
        return x.clone(), none, none
    first = torch.ones(1, dtype=torch.bool, device=device)
    differs = x.narrow(dim, 1, length - 1) != x.narrow(dim, 0, length - 1)
    others = [each for each in range(x.dim()) if each != dim % x.dim()]
    differs = differs.any(others) if others else differs
    fresh = torch.cat([first, differs])
    starts = fresh.nonzero().reshape(-1)
    # In the order in memory that PyTorch gives it.
    result = x.movedim(dim, 0).index_select(0, starts).movedim(0, dim)
    groups = torch.cumsum(fresh, 0) - 1 if with_groups else none
    if not with_counts:
        return result, groups, none
    ends = torch.cat([starts[1:], torch.full((1,), length, device=device)])
    return result, groups, ends - starts

"""`unique` and `unique_consecutive`: the card sorts, compares neighbours and counts.

The host reads the number of unique elements back.
"""

import torch


def unique(
    x: torch.Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the unique elements, the inverse indices and the counts."""
    values, order = x.reshape(-1).sort(stable=True)
    result, group, counts = _without_duplicates(values, 0, return_inverse, return_counts)
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
        return _without_duplicates(x, dim, return_inverse, return_counts)
    result, group, counts = _without_duplicates(x.reshape(-1), 0, return_inverse, return_counts)
    return result, group.reshape(x.shape) if return_inverse else group, counts


def _without_duplicates(
    x: torch.Tensor, dim: int, with_groups: bool, with_counts: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the first element of each run of equal elements, each element's run, and lengths."""
    length, device = x.shape[dim], x.device
    empty = torch.empty(0, dtype=torch.int64, device=device)
    if list(x.shape).count(0) > (length == 0):
        raise RuntimeError(
            f"unique along dim {dim} of a tensor of shape {list(x.shape)}: no other dim may have "
            "size 0"
        )
    if length == 0:
        return x.clone(), empty, empty
    first = torch.ones(1, dtype=torch.bool, device=device)
    differs = x.narrow(dim, 1, length - 1) != x.narrow(dim, 0, length - 1)
    other_dims = [axis for axis in range(x.dim()) if axis != dim % x.dim()]
    differs = differs.any(other_dims) if other_dims else differs
    is_start = torch.cat([first, differs])
    starts = is_start.nonzero().reshape(-1)
    # With the strides that PyTorch's result has.
    result = x.movedim(dim, 0).index_select(0, starts).movedim(0, dim)
    groups = torch.cumsum(is_start, 0) - 1 if with_groups else empty
    if not with_counts:
        return result, groups, empty
    ends = torch.cat([starts[1:], torch.full((1,), length, device=device)])
    return result, groups, ends - starts

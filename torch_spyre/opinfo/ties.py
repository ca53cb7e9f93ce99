"""Ops whose returned indices are not unique if elements are equal, such as `topk` and `sort`."""

from collections.abc import Callable

import torch

from torch_spyre.testing.op_samples import Arguments


def _dim_if_unstable(dim: int = -1, descending: bool = False, stable: bool = False) -> int | None:
    return None if stable else dim


def _dim_after_k(k: int, dim: int = -1, *options: bool, **named_options: bool) -> int | None:
    return dim


def _optional_dim(dim: int | None = None, keepdim: bool = False) -> int | None:
    return dim


# Functions that return the dim from the op's arguments. Indices of stable sorts are unique.
_DIMS: dict[str, Callable[..., int | None]] = {
    "argsort": _dim_if_unstable,
    "kthvalue": _dim_after_k,
    "median": _optional_dim,
    "sort": _dim_if_unstable,
    "topk": _dim_after_k,
}


def tie_dim(name: str, arguments: Arguments) -> int | None:
    """Return the dim along which an op may return any of several equal elements, or None."""
    get_dim = _DIMS.get(name)
    return get_dim(*arguments.args, **arguments.kwargs) if get_dim else None


def differ_only_in_ties(
    values: torch.Tensor, dim: int, actual: torch.Tensor, expected: torch.Tensor
) -> bool:
    """Return whether two index tensors select equal values, and `actual` has no duplicates."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    values = torch.atleast_1d(values)
    if actual.dim() < values.dim():  # without keepdim
        actual, expected = actual.unsqueeze(dim), expected.unsqueeze(dim)
    if not bool(((actual >= 0) & (actual < values.shape[dim])).all()):
        return False
    if bool((actual.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    selected, reference = values.take_along_dim(actual, dim), values.take_along_dim(expected, dim)
    is_equal = torch.eq(selected, reference) | (selected.isnan() & reference.isnan())
    return bool(is_equal.all())

"""Ops that find elements and tell their places: which of equal ones, PyTorch does not promise."""

from collections.abc import Callable

import torch

from torch_spyre.testing.op_samples import Arguments


def _any_order(dim: int = -1, descending: bool = False, stable: bool = False) -> int | None:
    return None if stable else dim


def _after_count(k: int, dim: int = -1, *flags: bool, **named: bool) -> int | None:
    return dim


def _if_given(dim: int | None = None, keepdim: bool = False) -> int | None:
    return dim


# By op: what finds the dim among its arguments. A stable order is compared place by place.
_DIMS: dict[str, Callable[..., int | None]] = {
    "argsort": _any_order,
    "kthvalue": _after_count,
    "median": _if_given,
    "sort": _any_order,
    "topk": _after_count,
}


def dim_of(name: str, arguments: Arguments) -> int | None:
    """Along which the op finds any of equal elements; None if it does nothing of the kind."""
    of_call = _DIMS.get(name)
    return of_call(*arguments.args, **arguments.kwargs) if of_call else None


def are_of_equals(rows: torch.Tensor, dim: int, got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether both find equal elements in `rows`, and `got` none of them twice."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    rows = torch.atleast_1d(rows)
    if got.dim() < rows.dim():  # without keepdim
        got, wanted = got.unsqueeze(dim), wanted.unsqueeze(dim)
    if not bool(((got >= 0) & (got < rows.shape[dim])).all()):
        return False
    if bool((got.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    found, expected = rows.take_along_dim(got, dim), rows.take_along_dim(wanted, dim)
    return bool(torch.eq(found, expected).logical_or(found.isnan() & expected.isnan()).all())

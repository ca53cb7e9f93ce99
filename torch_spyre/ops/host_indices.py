"""Indices on the host for a tensor on the card, which PyTorch allows: they move there first."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.ops.plans import Plan

_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


def plan(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """How to call the op, if this call has indices on the host."""
    if overload._schema.name not in _INDEXING or not are_on_host(args[0], args[1]):
        return None

    def with_indices_moved(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        x, indices, *others = args
        _check_places(x, indices)
        moved = [None if each is None else each.to(x.device) for each in indices]
        return overload(x, moved, *others, **kwargs)

    return with_indices_moved


def are_on_host(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> bool:
    """Are some, and is the tensor on the card?"""
    if x.device.type != DEVICE_NAME:
        return False
    return any(each is not None and each.device.type == "cpu" for each in indices)


def _check_places(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> None:
    """At once: what is wrong with indices on the card surfaces when a kernel has run."""
    dim = 0
    for index in indices:
        if index is not None and index.dtype in MASK_DTYPES:
            dim += index.dim()  # one flag for each place
            continue
        if index is not None and index.device.type == "cpu" and index.numel():
            size, (least, most) = x.shape[dim], map(int, index.aminmax())
            if least < -size or most >= size:
                wrong = least if least < -size else most
                raise IndexError(
                    f"index {wrong} is out of bounds for dimension {dim} with size {size}"
                )
        dim += 1

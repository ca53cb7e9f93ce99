"""Indexing a tensor on the card by index tensors on the host, which are copied to the card."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import MASK_DTYPES
from torch_spyre.ops.plans import Plan

_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


def plan(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """Return a plan that copies the indices to the card; None if no index is on the host."""
    if overload._schema.name not in _INDEXING or not are_on_host(args[0], args[1]):
        return None

    def with_indices_moved(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        x, indices, *remaining_args = args
        _check_bounds(x, indices)
        moved = [None if index is None else index.to(x.device) for index in indices]
        return overload(x, moved, *remaining_args, **kwargs)

    return with_indices_moved


def are_on_host(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> bool:
    """Return whether the tensor is on the card and an index is not."""
    if x.device.type != DEVICE_NAME:
        return False
    return any(index is not None and index.device.type == "cpu" for index in indices)


def _check_bounds(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> None:
    """Raise if an index is out of bounds; on the card that surfaces after a kernel has run."""
    dim = 0
    for index in indices:
        if index is not None and index.dtype in MASK_DTYPES:
            dim += index.dim()  # a mask covers as many dims as it has
            continue
        if index is not None and index.device.type == "cpu" and index.numel():
            size, (minimum, maximum) = x.shape[dim], map(int, index.aminmax())
            if minimum < -size or maximum >= size:
                wrong = minimum if minimum < -size else maximum
                raise IndexError(
                    f"index {wrong} is out of bounds for dimension {dim} with size {size}"
                )
        dim += 1

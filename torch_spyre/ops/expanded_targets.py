"""In-place ops that PyTorch still allows on expanded tensors, whose elements share memory."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.ops.plans import Plan

_ALLOWED = {
    "aten::_index_put_impl_": "index_put_",
    "aten::index_fill_": "index_fill_",
    "aten::index_put_": "index_put_",
    "aten::masked_fill_": "masked_fill_",
}


def plan(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """Return a plan that warns and runs the op on a copy; None if the target is not expanded."""
    name = _ALLOWED.get(overload._schema.name)
    if name is None or args[0].device.type != DEVICE_NAME:
        return None
    if torch._debug_has_internal_overlap(args[0]) != 1:
        return None

    def run(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        warnings.warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
            "performing this operation. This also applies to advanced indexing e.g. "
            "tensor[indices] = tensor",
            UserWarning,
            stacklevel=2,
        )
        target, *remaining = args
        before = target.clone(memory_format=torch.contiguous_format)
        _write_changes(target, before, overload(before.clone(), *remaining, **kwargs))
        return target

    return run


def _write_changes(target: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> None:
    """Write the last element that changed, of those that share memory."""
    repeated = [dim for dim, stride in enumerate(target.stride()) if stride == 0]
    unique = target
    for dim in repeated:
        unique = unique.narrow(dim, 0, 1)
    count = math.prod(target.shape[dim] for dim in repeated)
    source = tuple(range(len(repeated)))
    rows = after.movedim(repeated, source).reshape(count, *unique.squeeze(repeated).shape)
    old_rows = before.movedim(repeated, source).reshape(rows.shape)
    is_changed = (rows != old_rows) & ~((rows != rows) & (old_rows != old_rows))
    numbers = torch.arange(1, count + 1, device=target.device).reshape(-1, *[1] * (rows.dim() - 1))
    last = (is_changed * numbers).amax(0, keepdim=True)
    values = rows.gather(0, (last - 1).clamp(min=0))
    unique.squeeze(repeated).copy_(torch.where(last > 0, values, old_rows[:1])[0])

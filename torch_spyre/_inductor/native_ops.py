"""Decides which ops of a decomposed graph run on the card. Other ops fall back to the CPU."""

from collections.abc import Iterator

import torch

from torch_spyre._inductor.multi_loop.registry import is_multi_loop_overload
from torch_spyre.dtypes import COMPUTE_DTYPES, STORAGE_DTYPES
from torch_spyre.ops.registry import GRAPH_OPS, MOVING_GRAPH_OPS

_ALL_DTYPES = (*COMPUTE_DTYPES, *STORAGE_DTYPES)


def is_native(target: object, values: Iterator[object]) -> bool:
    """Return whether the op runs on the card with these inputs and outputs."""
    if not isinstance(target, torch._ops.OpOverload):
        return target is torch.ops.aten or getattr(target, "__module__", "") == "_operator"
    name = target._schema.name
    if name not in GRAPH_OPS and not is_multi_loop_overload(target):
        return False
    dtypes = _ALL_DTYPES if name in MOVING_GRAPH_OPS else COMPUTE_DTYPES
    return all(value.dtype in dtypes for value in values if isinstance(value, torch.Tensor))

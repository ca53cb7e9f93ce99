"""Decides which ops of a decomposed graph run on the card; the others fall back, visibly."""

from collections.abc import Iterator

import torch

from torch_spyre.dtypes import COMPUTE_DTYPES, STORAGE_DTYPES
from torch_spyre.ops.attention import OVERLOAD as ATTENTION_OP
from torch_spyre.ops.table import LOWERED

_PRIMS = ["convert_element_type", "iota", "broadcast_in_dim", "_unsafe_index_put_", "rev"]
_ATEN = frozenset(name for names in LOWERED.values() for name in names)
# Ops that move and convert elements: they accept dtypes that the card does not compute in.
_MOVES = frozenset(
    (*LOWERED["view"], "cat", "clone", "copy", "copy_", "convert_element_type", "empty")
)


def is_native(target: object, values: Iterator[object]) -> bool:
    """Return whether the op runs on the card with these inputs and outputs."""
    if not isinstance(target, torch._ops.OpOverload):
        return target is torch.ops.aten or getattr(target, "__module__", "") == "_operator"
    namespace, _, name = target._schema.name.partition("::")
    is_registered = (
        (namespace == "aten" and name in _ATEN)
        or (namespace == "prims" and name in _PRIMS)
        or target is ATTENTION_OP
    )
    if not is_registered:
        return False
    dtypes = (*COMPUTE_DTYPES, *STORAGE_DTYPES) if name in _MOVES else COMPUTE_DTYPES
    return all(value.dtype in dtypes for value in values if isinstance(value, torch.Tensor))

"""Which ops of a graph run on the card, after decomposition. Any other falls back, visibly."""

from collections.abc import Iterator

import torch

from torch_spyre.dtypes import COMPUTE_DTYPES, STORAGE_DTYPES
from torch_spyre.ops.attention import OVERLOAD as ATTENTION_OP
from torch_spyre.ops.table import LOWERED

_PRIMS = ["convert_element_type", "iota", "broadcast_in_dim", "_unsafe_index_put_", "rev"]
_ATEN = frozenset(name for names in LOWERED.values() for name in names)
# What needs no arithmetic of the types that it meets.
_MOVES = frozenset(
    (*LOWERED["view"], "cat", "clone", "copy", "copy_", "convert_element_type", "empty")
)


def is_native(target: object, values: Iterator[object]) -> bool:
    """Does the op run on the card with these inputs and outputs?"""
    if not isinstance(target, torch._ops.OpOverload):
        return target is torch.ops.aten or getattr(target, "__module__", "") == "_operator"
    namespace, _, name = target._schema.name.partition("::")
    known = (
        (namespace == "aten" and name in _ATEN)
        or (namespace == "prims" and name in _PRIMS)
        or target is ATTENTION_OP
    )
    if not known:
        return False
    types = (*COMPUTE_DTYPES, *STORAGE_DTYPES) if name in _MOVES else COMPUTE_DTYPES
    return all(value.dtype in types for value in values if isinstance(value, torch.Tensor))

"""The ATen ops that run on the card. Any other op falls back to the CPU, visibly.

Ops stand here by name, all overloads alike, after decomposition: what decomposes into native ops is
native too.
"""

from collections.abc import Iterator

import torch

from torch_spyre._inductor.op_functions import COMPUTED
from torch_spyre.ops.attention import OVERLOAD as ATTENTION_OP

POINTWISE = [
    "abs",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "tanh",
    "sin",
    "cos",
    "erf",
    "floor",
    "ceil",
    "trunc",
    "round",
    "relu",
    "maximum",
    "minimum",
    "pow",
    "fmod",
    "remainder",
    "square",
    "sign",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "where",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "clamp",
    "clamp_min",
    "clamp_max",
    "isnan",
    "isinf",
    "copysign",
    "gelu",
    "silu",
    "softplus",
    "fill",
]
VIEWS = [
    "view",
    "_unsafe_view",
    "reshape",
    "permute",
    "transpose",
    "t",
    "expand",
    "slice",
    "select",
    "squeeze",
    "unsqueeze",
    "alias",
    "detach",
    "split",
    "split_with_sizes",
    "unbind",
    "as_strided",
    "diagonal",
    "lift_fresh",
    "lift_fresh_copy",
]
CREATION = ["full", "empty", "scalar_tensor"]
REDUCTIONS = ["sum", "mean", "amax", "amin", "max", "min", "prod", "any", "argmax", "argmin"]
PRODUCTS = ["mm", "bmm"]
MOVES = [
    "clone",
    "copy",
    "copy_",
    "cat",
    "constant_pad_nd",
    "slice_scatter",
    "select_scatter",
    "index",
    "index_select",
    "embedding",
    "gather",
    "index_put",
    "index_put_",
    "_unsafe_index_put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
]
PRIMS = ["convert_element_type", "iota", "broadcast_in_dim", "_unsafe_index_put_", "rev"]

# Where the kinds of native ops are listed, for the docs.
KINDS = {
    "pointwise": POINTWISE,
    "view": VIEWS,
    "creation": CREATION,
    "reduction": REDUCTIONS,
    "product": PRODUCTS,
    "data movement": MOVES,
}
_ATEN = frozenset(name for names in KINDS.values() for name in names)


def is_native(target: object, values: Iterator[object]) -> bool:
    """Does the op run on the card with these inputs and outputs?"""
    if not isinstance(target, torch._ops.OpOverload):
        return target is torch.ops.aten or getattr(target, "__module__", "") == "_operator"
    namespace, _, name = target._schema.name.partition("::")
    known = (
        (namespace == "aten" and name in _ATEN)
        or (namespace == "prims" and name in PRIMS)
        or target is ATTENTION_OP
    )
    if not known:
        return False
    return all(value.dtype in COMPUTED for value in values if isinstance(value, torch.Tensor))

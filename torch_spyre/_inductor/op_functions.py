"""Which operation of the hardware a loop op of Inductor's is."""

import torch

from torch_spyre.dtypes import HALF_DTYPES, INT32_STORED_DTYPES

# Loop op -> operation. Where booleans mean something else than numbers, see FOR_FLAGS.
OP_FUNCTIONS = {
    "abs": "abs",
    "add": "add",
    "bitwise_and": "bitwiseand",
    "bitwise_left_shift": "shiftleft",
    "bitwise_not": "bitwisenot",
    "bitwise_or": "bitwiseor",
    "bitwise_right_shift": "shiftright",
    "bitwise_xor": "bitwisexor",
    "ceil": "ceil",
    "copysign": "copysign",
    "cos": "cos",
    "div_rn": "realdiv",
    "eq": "equal",
    "erf": "erf",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "floor": "floor",
    "floordiv": "floordiv",
    "fmod": "fmod",
    "ge": "greaterequal",
    "gelu": "gelufwd",
    "gt": "greaterthan",
    "isinf": "isinf",
    "isnan": "isnan",
    "le": "lesserequal",
    "log": "log",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "logical_and": "logicaland",
    "logical_not": "logicalnot",
    "logical_or": "logicalor",
    "logical_xor": "logicalxor",
    "lt": "lesserthan",
    "maximum": "maximum",
    "minimum": "minimum",
    "mod": "fmod",
    "mul": "mul",
    "ne": "notequal",
    "neg": "neg",
    "pow": "pow",
    "reciprocal": "reciprocal",
    "relu": "relufwd",
    "remainder": "remainder",
    "round": "round",
    "rsqrt": "rsqrt",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "sin": "sin",
    "sqrt": "sqrt",
    "sub": "sub",
    "tanh": "tanh",
    "truediv": "realdiv",
    "trunc": "trunc",
    "truncdiv": "truncdiv",
}
FOR_FLAGS = {
    "add": "logicalor",
    "bitwise_and": "logicaland",
    "bitwise_not": "logicalnot",
    "bitwise_or": "logicalor",
    "bitwise_xor": "logicalxor",
    "maximum": "logicalor",
    "minimum": "logicaland",
    "mul": "logicaland",
    "ne": "logicalxor",
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf")
_LOGIC = ("logical_and", "logical_or", "logical_not", "logical_xor")
GIVES_FLAGS = frozenset((*_COMPARISONS, *_LOGIC))
# Their results may exceed the 8 bits of uint8, which the card stores in 32: they are wrapped.
EXCEEDS = frozenset(("add", "sub", "mul", "neg", "bitwise_not", "bitwise_left_shift"))


def conversion(source: torch.dtype, target: torch.dtype) -> str:
    """The operation that converts. Halves of both kinds have one format on the card."""
    if target is torch.bool:
        return "notequal"
    if source in HALF_DTYPES and target is torch.float32:
        return "dl16tofp32"
    if source is torch.float32 and target in HALF_DTYPES:
        return "fp32todl16"
    same = (source in (*HALF_DTYPES, torch.bool) and target in HALF_DTYPES) or (
        source in INT32_STORED_DTYPES and target in INT32_STORED_DTYPES
    )
    return "identity" if same else "convert"

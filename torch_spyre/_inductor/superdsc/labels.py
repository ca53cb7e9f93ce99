"""What dimensions are called, which ops are treated apart, and which core takes which slice."""

from collections.abc import Mapping

import sympy

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.work_division.core_mapping import core_mapping

DIM_LABELS = ("mb", "x", "y", "i", "j", "ki", "kj")
LAST_LABEL = "out"
MATMUL_LABELS = ("ki", "kj", "y", "x", "mb", "out", "in")

MATMUL_OPS = frozenset({"matmul", "batchmatmul", "batchmatmulfp8"})
TOPK_OPS = frozenset({"topkvalue", "topkindex"})
RESTICKIFY = "ReStickifyOpHBM"
IDENTITY = "identity"
# These get a dim of size 1 when the stick is all they have.
CONVERSION_OPS = frozenset({"dl16tofp32", "fp32todl16", "fp8todl16", "qfp8ch"})
NONSTICK = "nonstick"

LAYOUT_LABELS = ("OUTPUT", "KERNEL", "INPUT", "KERNEL_IDX")
MATMUL_LAYOUT_LABELS = ("INPUT", "KERNEL", "OUTPUT", "KERNEL_IDX")
INDEX_LAYOUT_LABELS = ("KERNEL_IDX", "INPUT", "KERNEL", "OUTPUT")

# Everything in the public inventory of ops. A kernel of ours may hold others: they are treated as
# ops of the vector unit with whatever constants they carry.
PUBLIC_OPS = (
    frozenset(
        [
            "add",
            "sub",
            "mul",
            "realdiv",
            "maximum",
            "minimum",
            "equal",
            "notequal",
            "greaterthan",
            "greaterequal",
            "lesserthan",
            "lesserequal",
            "abs",
            "neg",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sigmoid",
            "tanh",
            "floor",
            "relufwd",
            "gelufwd",
            "silu",
            "where3",
            "clip",
            "softplus",
            "layernormscale",
            "layernormnorm",
            "exx2",
            "sum",
            "mean",
            "max",
            "min",
        ]
    )
    | MATMUL_OPS
    | TOPK_OPS
    | CONVERSION_OPS
    | {IDENTITY, RESTICKIFY}
)


def dimension_labels(op: str, count: int) -> list[str]:
    """Labels of an op's dims in the order of its iteration space."""
    labels = MATMUL_LABELS if op in MATMUL_OPS else (*DIM_LABELS, LAST_LABEL)
    if count > len(labels):
        raise InvalidOpSpecError(
            f"OpSpec {op}: SuperDSC has names for {len(labels)} dims, and it has {count}"
        )
    if op in MATMUL_OPS:
        return list(MATMUL_LABELS[len(MATMUL_LABELS) - count :])
    return [*DIM_LABELS[: count - 1], LAST_LABEL] if count else []


def synthetic_label(count: int) -> str | None:
    """Of the dim that stands for the lanes of a stick which no symbol runs along."""
    return DIM_LABELS[count] if count < len(DIM_LABELS) else None


def slices_of_cores(
    op: str, splits: Mapping[str, int], k_fast: bool | None = None
) -> list[dict[str, int]]:
    """Which slice of each dim every core takes; see `core_mapping`."""
    space = {sympy.Symbol(label): (sympy.Integer(1), split) for label, split in splits.items()}
    mapping = core_mapping(OpSpec(op, False, space, ()), k_fast=k_fast)
    return [
        {str(symbol): part for symbol, part in mapping.slices(core).items()}
        for core in range(mapping.cores)
    ]

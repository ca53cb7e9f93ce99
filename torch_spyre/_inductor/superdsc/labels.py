"""Labels of dims and layouts in SuperDSC, and the slices that each core computes."""

from collections.abc import Mapping

import sympy

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import MATMUL_OPS
from torch_spyre._inductor.work_division.core_mapping import core_mapping
from torch_spyre.errors import InvalidOpSpecError

DIM_LABELS = ("mb", "x", "y", "i", "j", "ki", "kj")
LAST_LABEL = "out"
MATMUL_LABELS = ("ki", "kj", "y", "x", "mb", "out", "in")

NONSTICK = "nonstick"

LAYOUT_LABELS = ("OUTPUT", "KERNEL", "INPUT", "KERNEL_IDX")
MATMUL_LAYOUT_LABELS = ("INPUT", "KERNEL", "OUTPUT", "KERNEL_IDX")
INDEX_LAYOUT_LABELS = ("KERNEL_IDX", "INPUT", "KERNEL", "OUTPUT")


def dimension_labels(op: str, count: int) -> list[str]:
    """Return the labels of an op's dims in the order of its iteration space."""
    labels = MATMUL_LABELS if op in MATMUL_OPS else (*DIM_LABELS, LAST_LABEL)
    if count > len(labels):
        raise InvalidOpSpecError(
            f"OpSpec {op}", f"SuperDSC supports at most {len(labels)} dims, but it has {count}"
        )
    if op in MATMUL_OPS:
        return list(MATMUL_LABELS[len(MATMUL_LABELS) - count :])
    return [*DIM_LABELS[: count - 1], LAST_LABEL] if count else []


def synthetic_label(count: int) -> str | None:
    """Return the label of the dim that is added for the lanes of a stick that no symbol indexes."""
    return DIM_LABELS[count] if count < len(DIM_LABELS) else None


def slices_per_core(
    op: str, splits: Mapping[str, int], k_fast: bool | None = None
) -> list[dict[str, int]]:
    """Return, for every core, the slice of each dim that it computes; see `core_mapping`."""
    space = {sympy.Symbol(label): (sympy.Integer(1), split) for label, split in splits.items()}
    mapping = core_mapping(OpSpec(op, False, space, ()), k_fast=k_fast)
    return [
        {str(symbol): slice for symbol, slice in mapping.slices(core).items()}
        for core in range(mapping.cores)
    ]

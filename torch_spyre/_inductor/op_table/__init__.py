"""One record per op: its name, KTIR, instructions, exactness, cost and reference.

Everything that the compiler states about an op is in its record, and every other table of ops
derives from the records. This package imports neither passes nor emitters. To add an op, see
`docs/adding-an-op.md`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torch_spyre._inductor.op_table import (
    attention,
    comparisons,
    data_movement,
    functions,
    indexed,
    matmul,
    pointwise,
    public_inventory,
    random,
    reductions,
    scan,
    sort,
)
from torch_spyre._inductor.op_table.comparisons import WHERE
from torch_spyre._inductor.op_table.data_movement import (
    IDENTITY,
    INDEX,
    RESTICKIFY,
    conversion_op,
)
from torch_spyre._inductor.op_table.matmul import MATMUL
from torch_spyre._inductor.op_table.public_inventory import LAYER_NORM_SCALE
from torch_spyre._inductor.op_table.record import (
    Emission,
    Exactness,
    Kind,
    KtirForm,
    OperandClass,
    OpRecord,
    ReductionRule,
    ResultType,
)
from torch_spyre.errors import UnsupportedError

__all__ = [
    "CONVERSION_OPS",
    "CUSTOM_LOOP_OPS",
    "Emission",
    "Exactness",
    "IDENTITY",
    "INDEX",
    "Kind",
    "KtirForm",
    "LAYER_NORM_SCALE",
    "LOOP_OPS",
    "MATMUL",
    "MATMUL_OPS",
    "OpRecord",
    "OperandClass",
    "POINTWISE_OPS",
    "PUBLIC_OPS",
    "RECORDS",
    "REDUCTION_OPS",
    "REDUCTION_TYPES",
    "RESTICKIFY",
    "ReductionRule",
    "ResultType",
    "TOPK_OPS",
    "WHERE",
    "category_of",
    "conversion_op",
    "find_record",
    "names_of",
    "record_of",
]

# Kinds that compute each element of the result from one element of each operand.
_ELEMENTWISE = (
    Kind.POINTWISE,
    Kind.COMPARISON,
    Kind.LOGICAL,
    Kind.SELECTION,
    Kind.CONVERSION,
    Kind.DATA_MOVEMENT,
)
_REDUCING = (Kind.REDUCTION, Kind.ARG_REDUCTION, Kind.MATMUL, Kind.MULTI_LOOP)
# All kinds, from the most to the least complex.
_BY_COMPLEXITY = (
    Kind.MULTI_LOOP,
    Kind.MATMUL,
    Kind.TOPK,
    Kind.NORMALIZATION,
    Kind.ARG_REDUCTION,
    Kind.REDUCTION,
    Kind.POINTWISE,
    Kind.COMPARISON,
    Kind.LOGICAL,
    Kind.SELECTION,
    Kind.CONVERSION,
    Kind.COORDINATE,
    Kind.DATA_MOVEMENT,
)


def _by_name() -> Mapping[str, OpRecord]:
    modules = (
        pointwise,
        functions,
        random,
        comparisons,
        indexed,
        data_movement,
        reductions,
        matmul,
        attention,
        scan,
        sort,
        public_inventory,
    )
    records = [record for module in modules for record in module.RECORDS]
    by_name = {record.name: record for record in records}
    assert len(by_name) == len(records), "two op records have the same name"
    return MappingProxyType(by_name)


RECORDS = _by_name()


def find_record(name: str) -> OpRecord | None:
    """Return the record of an op, or None for a name that only SuperDSC files contain."""
    return RECORDS.get(name)


def record_of(name: str) -> OpRecord:
    """Return the record of an op; raise `UnsupportedError` if there is none."""
    if name not in RECORDS:
        raise UnsupportedError(f"{name}, an op that is not in the op table")
    return RECORDS[name]


def category_of(ops: Iterable[str]) -> str:
    """Return the kind of the op that characterises a kernel of these ops: the most complex."""
    kinds = {record.kind for name in ops if (record := find_record(name)) is not None}
    # Conversions between formats, which kernels contain beside other ops, are not in the table.
    return next((kind.value for kind in _BY_COMPLEXITY if kind in kinds), Kind.CONVERSION.value)


def names_of(*kinds: Kind) -> frozenset[str]:
    """Return the names of all ops of these kinds."""
    return frozenset(name for name, record in RECORDS.items() if record.kind in kinds)


def _by_loop_op(*kinds: Kind) -> Mapping[str, OpRecord]:
    return MappingProxyType(
        {
            loop_op: record
            for record in RECORDS.values()
            if record.kind in kinds
            for loop_op in record.loop_ops
        }
    )


# Records by op of Inductor's loop bodies, and by type of its reductions.
LOOP_OPS = _by_loop_op(*_ELEMENTWISE, Kind.COORDINATE)
REDUCTION_TYPES = _by_loop_op(*_REDUCING)
# Loop ops that Inductor's handlers do not have.
CUSTOM_LOOP_OPS = tuple(name for name, record in LOOP_OPS.items() if record.is_custom_loop_op)

PUBLIC_OPS = frozenset(name for name, record in RECORDS.items() if record.is_public)
MATMUL_OPS = names_of(Kind.MATMUL)
TOPK_OPS = names_of(Kind.TOPK)
# Conversions that SuperDSC has names for.
CONVERSION_OPS = names_of(Kind.CONVERSION) & PUBLIC_OPS
# Elementwise ops that have KTIR.
POINTWISE_OPS = frozenset(name for name in names_of(*_ELEMENTWISE) if RECORDS[name].ktir)
REDUCTION_OPS = names_of(Kind.REDUCTION, Kind.ARG_REDUCTION)

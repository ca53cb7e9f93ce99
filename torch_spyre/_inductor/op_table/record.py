"""The record of one op: everything that the compiler states about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal

# How expensive an element is; see `torch_spyre/timing`.
CostClass = Literal["simple", "divide", "transcendental", "random", "matmul"]


class Kind(Enum):
    """Selects how operands are prepared and which emitter writes the op."""

    POINTWISE = "pointwise"
    COMPARISON = "comparison"
    LOGICAL = "logical"
    SELECTION = "selection"
    CONVERSION = "conversion"
    DATA_MOVEMENT = "data movement"
    COORDINATE = "coordinate"
    REDUCTION = "reduction"
    ARG_REDUCTION = "arg reduction"
    MATMUL = "matmul"
    TOPK = "top k"
    NORMALIZATION = "normalization"
    # Several loops in one kernel; see `multi_loop/`.
    MULTI_LOOP = "several loops"


class OperandClass(Enum):
    """The classes of element types for which an op may have different KTIR."""

    FLOAT = "float"
    INTEGER = "integer"
    BOOL = "bool"


class ResultType(Enum):
    """How the dtype of a result follows from the operands."""

    OPERANDS = "that of the operands"
    BOOL = "bool"
    # Conversions, matmuls and indices: the output tensor determines it.
    OUTPUT = "that of the output"


@dataclass(frozen=True)
class Exactness:
    """A bound on the error of a float result, in units in the last place of its type.

    `per_element` is added for each element that a reduction accumulates: it counts units in the
    last place of float32, relative to the sum of the magnitudes.
    """

    description: str
    half: float
    single: float
    per_element: float = 0.0


EXACT = Exactness("exact", 0.0, 0.0)
ROUNDED = Exactness("correctly rounded", 0.5, 0.5)
FUNCTION = Exactness("within 0.502 ulp (float32: 1 ulp)", 0.502, 1.0)
ACCUMULATED = Exactness("accumulated in float32, rounded once", 0.5, 0.5, per_element=1.0)


@dataclass(frozen=True)
class Extremes:
    """The places of an op's extremes on intervals of its operands, for the verification of kernels.

    They are at the ends of the intervals, which is the case if the op is monotone in each operand,
    and at `turning_points` of the first operand. Outside of `domain` the first operand gives NaN.
    With `has_pole` the result is unbounded where the last operand may be zero. `rule` names a
    function in `verification/enclosures.py` for ops that none of this describes.
    """

    turning_points: tuple[float, ...] = ()
    domain: tuple[float, float] | None = None
    has_pole: bool = False
    rule: str | None = None


AT_ENDS = Extremes()


def by_rule(name: str) -> Extremes:
    """Return the extremes that a function in `verification/enclosures.py` finds."""
    return Extremes(rule=name)


class Emission(Enum):
    """How a KTIR form becomes operations."""

    # One operation on whole tensors.
    OPERATION = "operation"
    # One scalar intrinsic in the body of a `linalg.generic`.
    INTRINSIC = "intrinsic"
    # Several operations, written by the function of this name in `to_ktir/compound_forms.py`.
    COMPOUND = "compound"
    # A conversion or a loop nest, which has an emitter of its own in `to_ktir`.
    DEDICATED = "dedicated"


@dataclass(frozen=True)
class KtirForm:
    """The KTIR of an op for operands of one class, and the instructions that it becomes."""

    emission: Emission
    name: str
    instructions: tuple[str, ...]
    predicate: str | None = None
    # The widest operands that the operation supports.
    max_bits: int = 32


def operation(name: str, instruction: str | None = None) -> KtirForm:
    """Return the form of one MLIR operation. Its instruction is named like it by default."""
    mnemonic = instruction or name.partition(".")[2]
    return KtirForm(Emission.OPERATION, name, (mnemonic,))


def intrinsic(name: str, instruction: str | None = None, max_bits: int = 32) -> KtirForm:
    """Return the form of one scalar intrinsic inside a `linalg.generic`."""
    mnemonic = instruction or name.partition(".")[2]
    return KtirForm(Emission.INTRINSIC, name, (mnemonic,), max_bits=max_bits)


def comparison(name: str, predicate: str) -> KtirForm:
    """Return the form of `arith.cmpf` or `arith.cmpi` with a predicate."""
    mnemonic = f"{name.partition('.')[2]}_{predicate}"
    return KtirForm(Emission.OPERATION, name, (mnemonic,), predicate)


def compound(name: str, *instructions: str) -> KtirForm:
    """Return the form that the function registered under this name writes."""
    return KtirForm(Emission.COMPOUND, name, instructions)


def dedicated(name: str, *instructions: str) -> KtirForm:
    """Return the form of an op that has an emitter of its own."""
    return KtirForm(Emission.DEDICATED, name, instructions)


@dataclass(frozen=True)
class ReductionRule:
    """The accumulator of a reduction. The KTIR form of the op combines two of them."""

    # The identity element. For integers, an infinity stands for the limit of the dtype.
    initial: float
    # Sums of 16-bit floats are accumulated in float32 and rounded at the end.
    is_wide: bool = False
    # Cores may reduce slices of one symbol and combine their accumulators.
    is_combinable: bool = True
    # The constant that the accumulator is multiplied by at the end.
    scale: str | None = None
    # The result for a tensor without elements; None if PyTorch raises an error.
    empty_result: float | None = None


@dataclass(frozen=True)
class OpRecord:
    """One op of OpSpecs. `name` is also its name in SuperDSC.

    `ktir` is empty for ops of the public inventory that the compiler does not emit: SuperDSC files
    with them can be read and written, but compiling them raises an error.
    `reference` accepts the operands in float64 or as integers, then for a reduction the dim, then
    the constants in the order of `constants`.
    """

    name: str
    kind: Kind
    # The number of tensors and scalar operands; None if it varies.
    arity: int | None
    ktir: Mapping[OperandClass, KtirForm] = field(default_factory=lambda: MappingProxyType({}))
    reference: Callable[..., Any] | None = None
    exactness: Exactness = ROUNDED
    cost: CostClass = "simple"
    result: ResultType = ResultType.OPERANDS
    # Ops of Inductor's loop bodies, or types of its reductions, that become this op.
    loop_ops: tuple[str, ...] = ()
    # The loop ops are ours: Inductor's handlers do not have them.
    is_custom_loop_op: bool = False
    # The op that the loop ops become on bool operands.
    bool_variant: str | None = None
    # Names of the constants that a spec must hold.
    constants: tuple[str, ...] = ()
    # Results of narrow integers may need more bits than their dtype has.
    can_overflow: bool = False
    reduction: ReductionRule | None = None
    # None: the result is only known if all operands are.
    extremes: Extremes | None = None
    # Part of SuperDSC's public inventory.
    is_public: bool = False

    def form(self, operand_class: OperandClass) -> KtirForm | None:
        """Return the KTIR for operands of a class, or None if the op has none."""
        return self.ktir.get(operand_class)


def forms(
    *,
    floats: KtirForm | None = None,
    integers: KtirForm | None = None,
    bools: KtirForm | None = None,
) -> Mapping[OperandClass, KtirForm]:
    """Return the KTIR of an op by the class of its operands."""
    by_class = {
        OperandClass.FLOAT: floats,
        OperandClass.INTEGER: integers,
        OperandClass.BOOL: bools,
    }
    return MappingProxyType({key: form for key, form in by_class.items() if form is not None})

"""Which vector instruction an op of `arith`, `math` or `spyreop` is.

The engine's names are those of the ops without their dialect; what differs stands here.
"""

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from torch_spyre.backend.lowering.registers import float32_bits
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects import spyreop

_DIALECTS = ("arith", "math", "spyreop")
_RENAMED = {
    "spyreop.realdiv": "divf",
    "spyreop.addi32toi32": "addi",
    "spyreop.muli32toi32": "muli",
    "spyreop.addi64toi64": "addi",
}
_FLOATS = (
    "addf subf mulf divf remf negf absf maximumf minimumf maxnumf minnumf copysign fma powf "
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt tanh sin cos erf "
    "ceil floor round roundeven trunc sigmoid silu gelu reciprocal softplus layernormscale"
)
_INTEGERS = (
    "addi subi muli divui divsi floordivsi ceildivsi ceildivui remui remsi andi ori xori "
    "shli shrsi shrui minsi maxsi minui maxui absi"
)
_CASTS = (
    "extf truncf convertf sitofp uitofp fptosi fptoui extsi extui trunci index_cast index_castui "
    "bitcast select"
)
_SUPPORTED = frozenset(f"{_FLOATS} {_INTEGERS} {_CASTS}".split())


@dataclass(frozen=True)
class VectorOp:
    """An instruction: its name, its operands, and constants (float32 bits) that follow these."""

    name: str
    operands: tuple[SSAValue, ...]
    result: SSAValue
    constants: tuple[int, ...] = ()

    @property
    def typed_operand(self) -> SSAValue:
        """The one whose type selects the instruction: not the mask of a select."""
        return self.operands[1] if self.name == "select" else self.operands[0]


def vector_op(operation: Operation) -> VectorOp | None:
    """None for an op that is not one vector instruction."""
    dialect, _, name = operation.name.partition(".")
    if dialect not in _DIALECTS or len(operation.results) != 1:
        return None
    operands, result = tuple(operation.operands), operation.results[0]
    match operation:
        case ktir_arith.CmpfOp():
            return VectorOp(f"cmpf_{operation.predicate_name}", operands, result)
        case ktir_arith.CmpiOp():
            return VectorOp(f"cmpi_{operation.predicate_name}", operands, result)
        case spyreop.SoftplusOp():
            beta, threshold = operation.beta.value.data, operation.threshold.value.data
            return VectorOp(name, operands, result, (float32_bits(beta), float32_bits(threshold)))
        case spyreop.LayerNormScaleOp():
            # The op carries no epsilon: what emits it has added it already.
            return VectorOp(name, operands, result, (0,))
    name = _RENAMED.get(operation.name, name)
    return VectorOp(name, operands, result) if name in _SUPPORTED else None


# Instructions that fold a tensor with one accumulator, in float32 or the integer type.
COMBINES = {
    arith.AddfOp: "addf",
    arith.MulfOp: "mulf",
    arith.MaximumfOp: "maximumf",
    arith.MinimumfOp: "minimumf",
    arith.MaxnumfOp: "maxnumf",
    arith.MinnumfOp: "minnumf",
    arith.AddiOp: "addi",
    arith.MuliOp: "muli",
    arith.MaxSIOp: "maxsi",
    arith.MinSIOp: "minsi",
    arith.MaxUIOp: "maxui",
    arith.MinUIOp: "minui",
    arith.AndIOp: "andi",
    arith.OrIOp: "ori",
    arith.XOrIOp: "xori",
}


def is_identity(combine: str, bits: int, type: ElementType) -> bool:
    """Does folding this value (a register's bits) in change nothing?"""
    negative_infinity, infinity = float32_bits(float("-inf")), float32_bits(float("inf"))
    match combine:
        case "addf" | "addi" | "ori" | "xori" | "maxui":
            return bits == 0
        case "mulf":
            return bits == float32_bits(1.0)
        case "muli":
            return bits == 1
        case "maximumf" | "maxnumf":
            return bits == negative_infinity
        case "minimumf" | "minnumf":
            return bits == infinity
    return False

"""The instructions of the vector unit (SFP): one entry per instruction.

The C++ enum and table (csrc/emulator/engine/generated/vector_instructions.inc), the lowering from
KTIR ops, the names of reductions and the table in docs/program.md derive from these entries.
torch_spyre/testing/instructions.py defines the result of every instruction.
"""

import enum
import math
from dataclasses import dataclass


class Signature(enum.Enum):
    """The types that operands and result may have."""

    FLOAT = "one float type, or any float type with an f32 result"
    FLOAT_COMPARISON = "one float type; the result is i1"
    INTEGER = "one integer type"
    INTEGER_COMPARISON = "one integer type; the result is i1"
    SELECT = "an i1 mask, then two operands of any one type"
    CAST = "one type to another"
    COUNTER = "operands and result are i32"


class Cost(enum.Enum):
    """The class of an instruction's time in the timing model."""

    SIMPLE = "simple"
    DIVIDE = "divide"
    TRANSCENDENTAL = "transcendental"
    RANDOM = "random"


@dataclass(frozen=True)
class Reduction:
    """How an instruction combines the elements of a reduction.

    `combine` names the kernel in csrc/emulator/engine/lanes.h. `identity` leaves every accumulator
    unchanged; None where the lowering does not rely on one.
    """

    combine: str
    identity: float | int | None


@dataclass(frozen=True)
class VectorInstruction:
    """The properties of one instruction; `ktir_ops` are the KTIR ops that it implements.

    `code` is the number of the C++ enumerator and never changes.
    """

    mnemonic: str
    code: int
    num_operands: int
    signature: Signature
    cost: Cost
    meaning: str
    ktir_ops: tuple[str, ...] = ()
    reduction: Reduction | None = None


def _float(
    mnemonic: str,
    code: int,
    num_operands: int,
    cost: Cost,
    meaning: str,
    *ktir_ops: str,
    reduction: Reduction | None = None,
) -> VectorInstruction:
    return VectorInstruction(
        mnemonic, code, num_operands, Signature.FLOAT, cost, meaning, ktir_ops, reduction
    )


def _integer(
    mnemonic: str,
    code: int,
    cost: Cost,
    meaning: str,
    *more_ops: str,
    reduction: Reduction | None = None,
) -> VectorInstruction:
    ops = (f"arith.{mnemonic}", *more_ops)
    return VectorInstruction(mnemonic, code, 2, Signature.INTEGER, cost, meaning, ops, reduction)


def _cast(mnemonic: str, code: int, meaning: str) -> VectorInstruction:
    op = f"arith.{mnemonic}"
    return VectorInstruction(mnemonic, code, 1, Signature.CAST, Cost.SIMPLE, meaning, (op,))


def _comparisons(
    op: str, first_code: int, signature: Signature, predicates: dict[str, str]
) -> tuple[VectorInstruction, ...]:
    """Return one instruction per predicate of `arith.cmpf` or `arith.cmpi`."""
    return tuple(
        VectorInstruction(f"{op}_{predicate}", code, 2, signature, Cost.SIMPLE, meaning)
        for code, (predicate, meaning) in enumerate(predicates.items(), first_code)
    )


_FLOAT_PREDICATES = {
    "false": "false",
    "oeq": "ordered and a == b",
    "ogt": "ordered and a > b",
    "oge": "ordered and a >= b",
    "olt": "ordered and a < b",
    "ole": "ordered and a <= b",
    "one": "ordered and a != b",
    "ord": "neither is NaN",
    "ueq": "unordered or a == b",
    "ugt": "unordered or a > b",
    "uge": "unordered or a >= b",
    "ult": "unordered or a < b",
    "ule": "unordered or a <= b",
    "une": "unordered or a != b",
    "uno": "one of them is NaN",
    "true": "true",
}
_INTEGER_PREDICATES = {
    "eq": "a == b",
    "ne": "a != b",
    "slt": "signed a < b",
    "sle": "signed a <= b",
    "sgt": "signed a > b",
    "sge": "signed a >= b",
    "ult": "unsigned a < b",
    "ule": "unsigned a <= b",
    "ugt": "unsigned a > b",
    "uge": "unsigned a >= b",
}
_SIMPLE, _DIVIDE, _TRANSCENDENTAL = Cost.SIMPLE, Cost.DIVIDE, Cost.TRANSCENDENTAL

VECTOR_INSTRUCTIONS: tuple[VectorInstruction, ...] = (
    _float("addf", 0, 2, _SIMPLE, "a + b", "arith.addf", reduction=Reduction("ADD", 0.0)),
    _float("subf", 1, 2, _SIMPLE, "a - b", "arith.subf"),
    _float("mulf", 2, 2, _SIMPLE, "a * b", "arith.mulf", reduction=Reduction("MUL", 1.0)),
    _float("divf", 3, 2, _DIVIDE, "a / b", "arith.divf", "spyreop.realdiv"),
    _float("remf", 4, 2, _DIVIDE, "IEEE fmod: exact, with the sign of a", "arith.remf"),
    _float("negf", 5, 1, _SIMPLE, "-a", "arith.negf"),
    _float("absf", 6, 1, _SIMPLE, "the absolute value", "math.absf"),
    _float(
        "maximumf",
        7,
        2,
        _SIMPLE,
        "the greater; NaN if one is NaN; -0 < +0",
        "arith.maximumf",
        reduction=Reduction("MAXIMUM", -math.inf),
    ),
    _float(
        "minimumf",
        8,
        2,
        _SIMPLE,
        "the smaller; NaN if one is NaN; -0 < +0",
        "arith.minimumf",
        reduction=Reduction("MINIMUM", math.inf),
    ),
    _float(
        "maxnumf",
        9,
        2,
        _SIMPLE,
        "the greater; a NaN is ignored",
        "arith.maxnumf",
        reduction=Reduction("MAXNUM", -math.inf),
    ),
    _float(
        "minnumf",
        10,
        2,
        _SIMPLE,
        "the smaller; a NaN is ignored",
        "arith.minnumf",
        reduction=Reduction("MINNUM", math.inf),
    ),
    _float("copysign", 11, 2, _SIMPLE, "the magnitude of a, the sign of b", "math.copysign"),
    _float("fma", 12, 3, _SIMPLE, "a * b + c, rounded once", "math.fma"),
    VectorInstruction(
        "select",
        16,
        3,
        Signature.SELECT,
        _SIMPLE,
        "a where the mask is set, else b",
        ("arith.select",),
    ),
    *_comparisons("cmpf", 32, Signature.FLOAT_COMPARISON, _FLOAT_PREDICATES),
    _integer(
        "addi",
        64,
        _SIMPLE,
        "a + b",
        "spyreop.addi32toi32",
        "spyreop.addi64toi64",
        reduction=Reduction("ADD", 0),
    ),
    _integer("subi", 65, _SIMPLE, "a - b"),
    _integer("muli", 66, _SIMPLE, "a * b", "spyreop.muli32toi32", reduction=Reduction("MUL", 1)),
    _integer("divui", 67, _DIVIDE, "unsigned quotient; 0 if b is 0"),
    _integer("divsi", 68, _DIVIDE, "quotient towards zero; 0 if b is 0"),
    _integer("floordivsi", 69, _DIVIDE, "quotient rounded down; 0 if b is 0"),
    _integer("ceildivsi", 70, _DIVIDE, "quotient rounded up; 0 if b is 0"),
    _integer("ceildivui", 71, _DIVIDE, "unsigned quotient rounded up; 0 if b is 0"),
    _integer("remui", 72, _DIVIDE, "unsigned remainder; a if b is 0"),
    _integer("remsi", 73, _DIVIDE, "remainder with the sign of a; a if b is 0"),
    _integer("andi", 74, _SIMPLE, "bitwise and", reduction=Reduction("AND", None)),
    _integer("ori", 75, _SIMPLE, "bitwise or", reduction=Reduction("OR", 0)),
    _integer("xori", 76, _SIMPLE, "bitwise exclusive or", reduction=Reduction("XOR", 0)),
    _integer("shli", 77, _SIMPLE, "shift left; 0 if b is the width or more"),
    _integer("shrsi", 78, _SIMPLE, "arithmetic shift right; the sign if b is the width or more"),
    _integer("shrui", 79, _SIMPLE, "logical shift right; 0 if b is the width or more"),
    _integer("minsi", 80, _SIMPLE, "the smaller, signed", reduction=Reduction("MINIMUM", None)),
    _integer("maxsi", 81, _SIMPLE, "the greater, signed", reduction=Reduction("MAXIMUM", None)),
    _integer(
        "minui",
        82,
        _SIMPLE,
        "the smaller, unsigned",
        reduction=Reduction("UNSIGNED_MINIMUM", None),
    ),
    _integer(
        "maxui", 83, _SIMPLE, "the greater, unsigned", reduction=Reduction("UNSIGNED_MAXIMUM", 0)
    ),
    VectorInstruction(
        "absi",
        84,
        1,
        Signature.INTEGER,
        _SIMPLE,
        "the absolute value; the lowest integer stays",
        ("math.absi",),
    ),
    VectorInstruction(
        "mulhui",
        85,
        2,
        Signature.INTEGER,
        _SIMPLE,
        "the upper half of the unsigned product, which has twice the width",
        ("spyreop.mulhui32toi32",),
    ),
    VectorInstruction(
        "philox",
        86,
        6,
        Signature.COUNTER,
        Cost.RANDOM,
        "the first word of the Philox 4x32-10 block of counter (a, b, c, d) and key (e, f)",
        ("spyreop.philox",),
    ),
    *_comparisons("cmpi", 96, Signature.INTEGER_COMPARISON, _INTEGER_PREDICATES),
    _cast("extf", 112, "any float type to any, rounded once"),
    _cast("truncf", 113, "any float type to any, rounded once"),
    _cast("convertf", 114, "any float type to any, rounded once"),
    _cast("sitofp", 115, "signed integer to float"),
    _cast("uitofp", 116, "unsigned integer to float"),
    _cast(
        "fptosi",
        117,
        "float to signed integer: towards zero, of 32 bits (64 for i64), of which narrower results "
        "are the low bits; NaN and out of range give its lowest value",
    ),
    _cast("fptoui", 118, "float to unsigned integer: towards zero, saturating; NaN gives 0"),
    _cast("extsi", 119, "any integer type to any, sign-extended or truncated"),
    _cast("extui", 120, "any integer type to any, zero-extended or truncated"),
    _cast("trunci", 121, "any integer type to any, sign-extended or truncated"),
    _cast("index_cast", 122, "any integer type to any, sign-extended or truncated"),
    _cast("index_castui", 123, "any integer type to any, zero-extended or truncated"),
    _cast("bitcast", 124, "the same bits, for types of equal size; NaNs become one NaN"),
    _float("exp", 128, 1, _TRANSCENDENTAL, "e to the a", "math.exp", "spyreop.exp"),
    _float("exp2", 129, 1, _TRANSCENDENTAL, "2 to the a", "math.exp2"),
    _float("expm1", 130, 1, _TRANSCENDENTAL, "exp(a) - 1", "math.expm1"),
    _float("log", 131, 1, _TRANSCENDENTAL, "natural logarithm", "math.log"),
    _float("log2", 132, 1, _TRANSCENDENTAL, "logarithm to base 2", "math.log2"),
    _float("log10", 133, 1, _TRANSCENDENTAL, "logarithm to base 10", "math.log10"),
    _float("log1p", 134, 1, _TRANSCENDENTAL, "log(1 + a)", "math.log1p"),
    _float("sqrt", 135, 1, _DIVIDE, "square root", "math.sqrt", "spyreop.sqrt"),
    _float("rsqrt", 136, 1, _DIVIDE, "1 / sqrt(a)", "math.rsqrt", "spyreop.rsqrt"),
    _float("tanh", 137, 1, _TRANSCENDENTAL, "hyperbolic tangent", "math.tanh"),
    _float("sin", 138, 1, _TRANSCENDENTAL, "sine", "math.sin"),
    _float("cos", 139, 1, _TRANSCENDENTAL, "cosine", "math.cos"),
    _float("erf", 140, 1, _TRANSCENDENTAL, "error function", "math.erf"),
    _float("ceil", 141, 1, _SIMPLE, "round up", "math.ceil"),
    _float("floor", 142, 1, _SIMPLE, "round down", "math.floor"),
    _float("round", 143, 1, _SIMPLE, "round to nearest, ties away from zero", "math.round"),
    _float("roundeven", 144, 1, _SIMPLE, "round to nearest, ties to even", "math.roundeven"),
    _float("trunc", 145, 1, _SIMPLE, "round towards zero", "math.trunc"),
    _float("powf", 146, 2, _TRANSCENDENTAL, "a to the b, with the special cases of C", "math.powf"),
    _float("sigmoid", 160, 1, _TRANSCENDENTAL, "1 / (1 + exp(-a))", "spyreop.sigmoid"),
    _float("silu", 161, 1, _TRANSCENDENTAL, "a * sigmoid(a)", "spyreop.silu"),
    _float(
        "gelu", 162, 1, _TRANSCENDENTAL, "a * Phi(a), the exact normal distribution", "spyreop.gelu"
    ),
    _float("reciprocal", 163, 1, _DIVIDE, "1 / a", "spyreop.reciprocal"),
    _float(
        "softplus",
        164,
        3,
        _TRANSCENDENTAL,
        "x, beta, threshold: x where x * beta > threshold, else log1p(exp(x * beta)) / beta",
        "spyreop.softplus",
    ),
    _float(
        "layernormscale",
        165,
        2,
        _DIVIDE,
        "variance, epsilon: 1 / sqrt(variance + epsilon)",
        "spyreop.layernormscale",
    ),
)

VECTOR_INSTRUCTIONS_BY_NAME = {entry.mnemonic: entry for entry in VECTOR_INSTRUCTIONS}
VECTOR_INSTRUCTIONS_BY_KTIR_OP = {
    op: entry for entry in VECTOR_INSTRUCTIONS for op in entry.ktir_ops
}
REDUCTIONS = {
    entry.mnemonic: entry.reduction for entry in VECTOR_INSTRUCTIONS if entry.reduction is not None
}

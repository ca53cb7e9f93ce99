"""Elementwise ops: from the name in an OpSpec to KTIR, by the type of what they work on."""

import math as numbers
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, math
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.types import F8E4M3, F8E5M2, F16, F32, I1, bytes_of, is_float
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects import spyreop

Operands = Sequence[SSAValue]
Constants = Mapping[str, float]
Emit = Callable[[Emitter, Operands, Constants], SSAValue]


def _op(kind: Callable[..., Operation]) -> Emit:
    return lambda emitter, operands, _: emitter.add(kind(*operands))


def _intrinsic(kind: Callable[..., Operation]) -> Emit:
    return lambda emitter, operands, _: emitter.generic(kind, operands)


def _like(emitter: Emitter, value: float, operand: SSAValue) -> SSAValue:
    """A constant of an operand's type and shape."""
    return emitter.splat(emitter.scalar(value, element_of(operand)), shape_of(operand))


def _relu(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(arith.MaximumfOp(x, _like(emitter, 0.0, x)))


def _clip(emitter: Emitter, operands: Operands, constants: Constants) -> SSAValue:
    (x,) = operands
    low, high = constants["clipMin"], constants["clipMax"]
    table = _FLOAT if is_float(element_of(x)) else _INTEGER
    if low > -numbers.inf:
        x = table["maximum"](emitter, [x, _like(emitter, low, x)], constants)
    if high < numbers.inf:
        x = table["minimum"](emitter, [x, _like(emitter, high, x)], constants)
    return x


def _softplus(emitter: Emitter, operands: Operands, constants: Constants) -> SSAValue:
    beta, threshold = constants["softplusBeta"], constants["softplusThresh"]
    return emitter.generic(lambda x: spyreop.SoftplusOp(x, beta, threshold), operands)


def _remainder(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    """With the sign of the divisor, as Python's and PyTorch's."""
    x, y = operands
    if not is_float(element_of(x)):
        quotient = emitter.add(arith.FloorDivSIOp(x, y))
        return emitter.add(arith.SubiOp(x, emitter.add(arith.MuliOp(quotient, y))))
    rest = emitter.add(ktir_arith.RemFOp(x, y))
    zero = _like(emitter, 0.0, x)
    differs = emitter.add(
        arith.XOrIOp(
            emitter.add(ktir_arith.CmpfOp("olt", rest, zero)),
            emitter.add(ktir_arith.CmpfOp("olt", y, zero)),
        )
    )
    nonzero = emitter.add(ktir_arith.CmpfOp("une", rest, zero))
    wrong = emitter.add(arith.AndIOp(differs, nonzero))
    return emitter.add(ktir_arith.SelectOp(wrong, emitter.add(arith.AddfOp(rest, y)), rest))


def _is_infinite(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    size = emitter.add(math.AbsFOp(x))
    return emitter.add(ktir_arith.CmpfOp("oeq", size, _like(emitter, numbers.inf, x)))


def _is_nan(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(ktir_arith.CmpfOp("uno", x, x))


def _negative(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(arith.SubiOp(_like(emitter, 0, x), x))


def _flipped(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(arith.XOrIOp(x, _like(emitter, -1, x)))


_FLOAT: dict[str, Emit] = {
    "add": _op(arith.AddfOp),
    "sub": _op(arith.SubfOp),
    "mul": _op(arith.MulfOp),
    "realdiv": _op(arith.DivfOp),
    "fmod": _op(ktir_arith.RemFOp),
    "remainder": _remainder,
    "maximum": _op(arith.MaximumfOp),
    "minimum": _op(arith.MinimumfOp),
    "pow": _op(math.PowFOp),
    "copysign": _op(math.CopySignOp),
    "abs": _op(math.AbsFOp),
    "neg": _op(arith.NegfOp),
    "exp": _op(math.ExpOp),
    "exp2": _op(math.Exp2Op),
    "expm1": _op(math.ExpM1Op),
    "log": _op(math.LogOp),
    "log2": _op(math.Log2Op),
    "log10": _op(math.Log10Op),
    "log1p": _op(math.Log1pOp),
    "sqrt": _op(math.SqrtOp),
    "rsqrt": _op(math.RsqrtOp),
    "reciprocal": _intrinsic(spyreop.ReciprocalOp),
    "sigmoid": _intrinsic(spyreop.SigmoidOp),
    "tanh": _op(math.TanhOp),
    "sin": _op(math.SinOp),
    "cos": _op(math.CosOp),
    "erf": _op(math.ErfOp),
    "floor": _op(math.FloorOp),
    "ceil": _op(math.CeilOp),
    "trunc": _op(math.TruncOp),
    "round": _op(math.RoundEvenOp),
    "relufwd": _relu,
    "gelufwd": _intrinsic(spyreop.GeluOp),
    "silu": _intrinsic(spyreop.SiluOp),
    "softplus": _softplus,
    "clip": _clip,
    "isnan": _is_nan,
    "isinf": _is_infinite,
}

_INTEGER: dict[str, Emit] = {
    "add": _op(arith.AddiOp),
    "sub": _op(arith.SubiOp),
    "mul": _op(arith.MuliOp),
    "floordiv": _op(arith.FloorDivSIOp),
    "truncdiv": _op(arith.DivSIOp),
    "fmod": _op(arith.RemSIOp),
    "remainder": _remainder,
    "maximum": _op(arith.MaxSIOp),
    "minimum": _op(arith.MinSIOp),
    "abs": _op(math.AbsIOp),
    "neg": _negative,
    "clip": _clip,
    "bitwiseand": _op(arith.AndIOp),
    "bitwiseor": _op(arith.OrIOp),
    "bitwisexor": _op(arith.XOrIOp),
    "bitwisenot": _flipped,
    "shiftleft": _op(arith.ShLIOp),
    "shiftright": _op(arith.ShRSIOp),
}

_FLAGS: dict[str, Emit] = {
    "logicaland": _op(arith.AndIOp),
    "logicalor": _op(arith.OrIOp),
    "logicalxor": _op(arith.XOrIOp),
    "logicalnot": _flipped,
}

# For floats, and for integers.
COMPARISONS = {
    "equal": ("oeq", "eq"),
    "notequal": ("une", "ne"),
    "lesserthan": ("olt", "slt"),
    "lesserequal": ("ole", "sle"),
    "greaterthan": ("ogt", "sgt"),
    "greaterequal": ("oge", "sge"),
}
# Copies, and conversions between the types of their tensors.
CONVERSIONS = ("identity", "dl16tofp32", "fp32todl16", "convert", "ReStickifyOpHBM")
WHERE = "where3"
POINTWISE = frozenset((*_FLOAT, *_INTEGER, *_FLAGS, *COMPARISONS, *CONVERSIONS, WHERE))


def emit_pointwise(
    emitter: Emitter, op: str, operands: Operands, constants: Constants, result: Attribute
) -> SSAValue:
    """The op on tensors of one shape. What it gives may be flags where `result` is a number."""
    if op in CONVERSIONS:
        return converted(emitter, operands[0], result)
    if op == WHERE:
        condition = converted(emitter, operands[0], I1)
        chosen = [converted(emitter, each, result) for each in operands[1:]]
        return emitter.add(ktir_arith.SelectOp(condition, *chosen))
    if op in _FLAGS:
        flags = [converted(emitter, each, I1) for each in operands]
        return _FLAGS[op](emitter, flags, constants)
    element = _common(operands)
    same = [converted(emitter, each, element) for each in operands]
    if op in COMPARISONS:
        for_floats, for_integers = COMPARISONS[op]
        if is_float(element):
            return emitter.add(ktir_arith.CmpfOp(for_floats, *same))
        return emitter.add(ktir_arith.CmpiOp(for_integers, *same))
    table = _FLOAT if is_float(element) else _INTEGER
    if op not in table:
        raise UnsupportedError(f"{op} on {element}")
    return table[op](emitter, same, constants)


def _common(operands: Operands) -> Attribute:
    """The type that an op works in: flags are numbers there."""
    elements = [element_of(each) for each in operands]
    found = next((each for each in elements if each != I1), F16)
    return found


def _with_overflows(emitter: Emitter, value: SSAValue) -> SSAValue:
    """PyTorch makes NaN of what is beyond the numbers of float8_e5m2fnuz, and the card the last."""
    beyond = 61440.0  # the middle between the last one and what would come next
    size = emitter.add(math.AbsFOp(value))
    exceeds = emitter.add(ktir_arith.CmpfOp("oge", size, _like(emitter, beyond, value)))
    return emitter.add(ktir_arith.SelectOp(exceeds, _like(emitter, numbers.nan, value), value))


def converted(emitter: Emitter, value: SSAValue, target: Attribute) -> SSAValue:
    source = element_of(value)
    if source == target:
        return value
    found = type(value.type)(target, shape_of(value))  # type: ignore[call-arg]  # a tensor type
    if target == I1:
        zero = _like(emitter, 0, value)
        if is_float(source):
            return emitter.add(ktir_arith.CmpfOp("une", value, zero))
        return emitter.add(ktir_arith.CmpiOp("ne", value, zero))
    if target in (F8E4M3, F8E5M2) and source != F32:
        return converted(emitter, converted(emitter, value, F32), target)
    if target == F8E5M2:
        value = _with_overflows(emitter, value)
    match is_float(source), is_float(target):
        case True, True:
            widens = bytes_of(target) > bytes_of(source)
            kind: Callable[..., Operation] = ktir_arith.ExtFOp if widens else ktir_arith.TruncFOp
        case True, False:
            kind = ktir_arith.FPToSIOp
        case False, True:
            kind = ktir_arith.UIToFPOp if source == I1 else ktir_arith.SIToFPOp
        case _:
            if source == I1:
                kind = ktir_arith.ExtUIOp
            else:
                widens = bytes_of(target) > bytes_of(source)
                kind = ktir_arith.ExtSIOp if widens else ktir_arith.TruncIOp
    return emitter.add(kind(value, found))

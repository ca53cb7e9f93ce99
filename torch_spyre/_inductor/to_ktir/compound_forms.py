"""Emits ops that are several operations. A record names the function that emits its form."""

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.ir import SSAValue

from torch_spyre._inductor.to_ktir.conversions import full_like
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of
from torch_spyre._inductor.to_ktir.types import is_float
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects import spyreop

Operands = Sequence[SSAValue]
Constants = Mapping[str, float]
EmitForm = Callable[[Emitter, Operands, Constants], SSAValue]


def _relu(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(arith.MaximumfOp(x, full_like(emitter, 0.0, x)))


def _clip(emitter: Emitter, operands: Operands, constants: Constants) -> SSAValue:
    (x,) = operands
    low, high = constants["clipMin"], constants["clipMax"]
    has_floats = is_float(element_of(x))
    if low > -math.inf:
        maximum = arith.MaximumfOp if has_floats else arith.MaxSIOp
        x = emitter.add(maximum(x, full_like(emitter, low, x)))
    if high < math.inf:
        minimum = arith.MinimumfOp if has_floats else arith.MinSIOp
        x = emitter.add(minimum(x, full_like(emitter, high, x)))
    return x


def _softplus(emitter: Emitter, operands: Operands, constants: Constants) -> SSAValue:
    beta, threshold = constants["softplusBeta"], constants["softplusThresh"]
    return emitter.generic(lambda x: spyreop.SoftplusOp(x, beta, threshold), operands)


def _remainder(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    """Emit the remainder with the sign of the divisor, as Python and PyTorch define it."""
    x, y = operands
    remainder = emitter.add(ktir_arith.RemFOp(x, y))
    zero = full_like(emitter, 0.0, x)
    signs_differ = emitter.add(
        arith.XOrIOp(
            emitter.add(ktir_arith.CmpfOp("olt", remainder, zero)),
            emitter.add(ktir_arith.CmpfOp("olt", y, zero)),
        )
    )
    is_nonzero = emitter.add(ktir_arith.CmpfOp("une", remainder, zero))
    has_wrong_sign = emitter.add(arith.AndIOp(signs_differ, is_nonzero))
    corrected = emitter.add(arith.AddfOp(remainder, y))
    return emitter.add(ktir_arith.SelectOp(has_wrong_sign, corrected, remainder))


def _integer_remainder(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    x, y = operands
    quotient = emitter.add(arith.FloorDivSIOp(x, y))
    return emitter.add(arith.SubiOp(x, emitter.add(arith.MuliOp(quotient, y))))


def _is_infinite(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    magnitude = emitter.add(math_dialect.AbsFOp(x))
    return emitter.add(ktir_arith.CmpfOp("oeq", magnitude, full_like(emitter, math.inf, x)))


def _is_nan(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(ktir_arith.CmpfOp("uno", x, x))


def _integer_negation(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(arith.SubiOp(full_like(emitter, 0, x), x))


def _complement(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    (x,) = operands
    return emitter.add(arith.XOrIOp(x, full_like(emitter, -1, x)))


def _select(emitter: Emitter, operands: Operands, _: Constants) -> SSAValue:
    return emitter.add(ktir_arith.SelectOp(*operands))


COMPOUND_FORMS: Mapping[str, EmitForm] = {
    "clip": _clip,
    "complement": _complement,
    "integer_negation": _integer_negation,
    "integer_remainder": _integer_remainder,
    "isinf": _is_infinite,
    "isnan": _is_nan,
    "relu": _relu,
    "remainder": _remainder,
    "select": _select,
    "softplus": _softplus,
}

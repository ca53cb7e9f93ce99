"""The golden model of the vector unit: the result of every instruction, computed in float64.

`run(name, operand_type, result_type, *codes)` computes on arrays of codes as the engine does: it
decodes them, applies the instruction's function below and rounds once. Float functions accept and
return float64; integer functions accept and return Python integers, in arrays of objects, signed
unless the name ends in `ui`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_spyre.backend.program.element_types import ElementType
from torch_spyre.testing import formats, philox

Values = NDArray[np.float64]
Codes = NDArray[Any]
Integers = NDArray[np.object_]

# --- Element types --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CodeType:
    """An element type by its MLIR name; `f16_ieee` is f16 while the card computes in binary16."""

    name: str
    bits: int
    is_float: bool

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """Return the dtype of an array of codes."""
        return np.dtype(f"uint{max(self.bits, 8)}")


TYPES = {
    "f16_ieee": CodeType("f16_ieee", 16, True),
    **{type.mlir_name: CodeType(type.mlir_name, type.bits, type.is_float) for type in ElementType},
}


def _bf16_values() -> Values:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        return upper.view(np.float32).astype(np.float64)


@cache
def values_of_codes(name: str) -> Values:
    """Return the value of every code of a float type of 8 or 16 bits."""
    match name:
        case "f16":
            return formats.sen169_values()
        case "f16_ieee":
            return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
        case "bf16":
            return _bf16_values()
        case "f8E4M3FN":
            return formats.e4m3fn_values()
        case "f8E5M2FNUZ":
            return formats.e5m2fnuz_values()
        case _:
            raise ValueError(f"{name} is not a float type of 8 or 16 bits")


@cache
def _magnitudes(name: str) -> tuple[Values, Values]:
    """Return the values from 0 up, and the midpoint of each and the next.

    Formats with infinity have it as their last value; for the midpoint, 2**emax replaces it.
    """
    values = values_of_codes(name)
    positive = values[: len(values) // 2]
    numbers = positive[~np.isnan(positive)]
    spaced = numbers.copy()
    if np.isinf(spaced[-1]):
        spaced[-1] = 2 * spaced[-2] - spaced[-3]
    return numbers, (spaced[:-1] + spaced[1:]) / 2


def _encode_small_float(name: str, values: Values) -> Codes:
    """Return the nearest codes, ties to even; values out of range saturate or are infinite."""
    _, middles = _magnitudes(name)
    size = np.abs(values)
    below = np.searchsorted(middles, size, side="left")
    at_middle = middles[np.minimum(below, len(middles) - 1)] == size
    # Codes ascend with their values, so the even one of two neighbours is the tie's result.
    code = np.where(at_middle & (below % 2 == 1), below + 1, below)
    bits = TYPES[name].bits
    sign = np.where(np.signbit(values), 1 << (bits - 1), 0)
    if name == "f8E5M2FNUZ":
        sign = np.where(code == 0, 0, sign)
    nan = {"f8E4M3FN": 0x7F, "f8E5M2FNUZ": 0x80, "bf16": 0x7FC0, "f16_ieee": 0x7E00}[name]
    return np.asarray(np.where(np.isnan(values), nan, code | sign), dtype=TYPES[name].code_dtype)


def encode_floats(name: str, values: Values) -> Codes:
    """Return the codes of values, rounded once to the type."""
    if name == "f16":
        return formats.encode_sen169_result(values)
    if name == "f32":
        with np.errstate(all="ignore"):
            single = values.astype(np.float32)
        return np.where(np.isnan(single), np.uint32(0x7FC00000), single.view(np.uint32))
    return _encode_small_float(name, values)


def decode_floats(name: str, codes: Codes) -> Values:
    if name == "f32":
        with np.errstate(invalid="ignore"):
            return codes.astype(np.uint32).view(np.float32).astype(np.float64)
    return values_of_codes(name)[codes]


def convert_floats(operand_type: str, result_type: str, codes: Codes) -> Codes:
    """Return converted codes; unlike arithmetic, conversions read SEN169's largest as infinity."""
    values = decode_floats(operand_type, codes)
    if operand_type == "f16":
        values = formats.largest_to_infinity(values)
    if result_type == "f16":
        return formats.encode_sen169(values)
    return encode_floats(result_type, values)


def ulp(name: str, values: Values) -> Values:
    """Return the distance between the two values of the type around each value."""
    size = np.abs(values)
    if name == "f32":
        # The spacing is the same in the whole last binade.
        return np.spacing(np.minimum(size, 2.0**127).astype(np.float32)).astype(np.float64)
    numbers, _ = _magnitudes(name)
    finite = numbers[np.isfinite(numbers)]
    below = np.clip(np.searchsorted(finite, size, side="right") - 1, 0, len(finite) - 2)
    return np.asarray(finite[below + 1] - finite[below])


def signed_integers(name: str, codes: Codes) -> Integers:
    bits = TYPES[name].bits
    unsigned = unsigned_integers(name, codes)
    negative = unsigned >= 1 << (bits - 1)
    return np.asarray(unsigned - negative.astype(object) * (1 << bits), dtype=object)


def unsigned_integers(name: str, codes: Codes) -> Integers:
    numbers: Integers = codes.astype(object)
    return np.asarray(numbers & ((1 << TYPES[name].bits) - 1), dtype=object)


def encode_integers(name: str, numbers: Integers) -> Codes:
    wrapped = numbers & ((1 << TYPES[name].bits) - 1)
    return np.asarray(wrapped, dtype=TYPES[name].code_dtype)


# --- Functions of floats --------------------------------------------------------------------------


def maximumf(a: Values, b: Values) -> Values:
    """NaN wins; -0 < +0."""
    greater = np.where((a == b) & np.signbit(a), b, np.where(a >= b, a, b))
    return np.where(np.isnan(a) | np.isnan(b), np.nan, greater)


def minimumf(a: Values, b: Values) -> Values:
    return -maximumf(-a, -b)


def maxnumf(a: Values, b: Values) -> Values:
    """NaN is ignored."""
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, maximumf(a, b)))


def minnumf(a: Values, b: Values) -> Values:
    return -maxnumf(-a, -b)


def roundaway(x: Values) -> Values:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, whole), x)


def reciprocal(x: Values) -> Values:
    return 1 / x


def rsqrt(x: Values) -> Values:
    return 1 / np.sqrt(x)


def _vectorized(function: Callable[[Any], float], arguments: NDArray[Any]) -> Values:
    """Apply a scalar function that NumPy lacks to every element."""
    return np.asarray(np.vectorize(function, otypes=[np.float64])(arguments), dtype=np.float64)


def erf(x: Values) -> Values:
    return _vectorized(math.erf, x)


def sigmoid(x: Values) -> Values:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def silu(x: Values) -> Values:
    return x * sigmoid(x)


def gelu(x: Values) -> Values:
    """Return x times the cumulative normal distribution at x, exactly, without tanh."""
    return x * _vectorized(math.erfc, -x / math.sqrt(2)) / 2


def softplus(x: Values, beta: Values, threshold: Values) -> Values:
    product = x * beta
    return np.where(product > threshold, x, np.logaddexp(0, product) / beta)


def layernormscale(variance: Values, epsilon: Values) -> Values:
    return 1 / np.sqrt(variance + epsilon)


def fma(a: Values, b: Values, c: Values) -> Values:
    """Return a * b + c rounded to odd, so that rounding the result again equals rounding once.

    The product of two float32 values is exact in float64; the error of the sum is, too.
    """
    product = a * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    even = total.view(np.int64) % 2 == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0)
    return np.where(inexact & even, np.nextafter(total, towards), total)


FLOAT_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "negf": np.negative,
    "absf": np.abs,
    "maximumf": maximumf,
    "minimumf": minimumf,
    "maxnumf": maxnumf,
    "minnumf": minnumf,
    "copysign": np.copysign,
    "fma": fma,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": rsqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": erf,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": roundaway,
    "roundeven": np.rint,
    "trunc": np.trunc,
    "powf": np.power,
    "sigmoid": sigmoid,
    "silu": silu,
    "gelu": gelu,
    "reciprocal": reciprocal,
    "softplus": softplus,
    "layernormscale": layernormscale,
}

# --- Comparisons of floats ------------------------------------------------------------------------

_ORDERED: dict[str, Callable[[Values, Values], NDArray[np.bool_]]] = {
    "eq": lambda a, b: a == b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "ne": lambda a, b: (a < b) | (a > b),
}


def compare_floats(predicate: str, a: Values, b: Values) -> NDArray[np.bool_]:
    """Return the predicate; where a or b is NaN, ordered ones are false, unordered ones true."""
    unordered = np.isnan(a) | np.isnan(b)
    match predicate:
        case "false":
            return np.zeros_like(unordered)
        case "true":
            return np.ones_like(unordered)
        case "ord":
            return ~unordered
        case "uno":
            return unordered
    holds = _ORDERED[predicate[1:]](a, b)
    return holds | unordered if predicate[0] == "u" else holds


# --- Functions of integers ------------------------------------------------------------------------


def _elementwise(function: Callable[[int, int, int], int], bits: int) -> Callable[..., Integers]:
    return np.vectorize(lambda a, b: function(a, b, bits), otypes=[object])


def _quotient_towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift_left(a: int, amount: int, bits: int) -> int:
    return a << amount if amount < bits else 0


INTEGER_FUNCTIONS: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda a, b, _: a + b,
    "subi": lambda a, b, _: a - b,
    "muli": lambda a, b, _: a * b,
    "mulhui": lambda a, b, bits: a * b >> bits,
    "divui": lambda a, b, _: a // b if b else 0,
    "divsi": lambda a, b, _: _quotient_towards_zero(a, b) if b else 0,
    "floordivsi": lambda a, b, _: a // b if b else 0,
    "ceildivsi": lambda a, b, _: -(-a // b) if b else 0,
    "ceildivui": lambda a, b, _: -(-a // b) if b else 0,
    "remui": lambda a, b, _: a % b if b else a,
    "remsi": lambda a, b, _: a - b * _quotient_towards_zero(a, b) if b else a,
    "andi": lambda a, b, _: a & b,
    "ori": lambda a, b, _: a | b,
    "xori": lambda a, b, _: a ^ b,
    "shli": lambda a, b, bits: _shift_left(a, b % (1 << bits), bits),
    "shrsi": lambda a, b, bits: a >> min(b % (1 << bits), bits - 1),
    "shrui": lambda a, b, bits: a >> b if b < bits else 0,
    "minsi": lambda a, b, _: min(a, b),
    "maxsi": lambda a, b, _: max(a, b),
    "minui": lambda a, b, _: min(a, b),
    "maxui": lambda a, b, _: max(a, b),
    "absi": lambda a, _, __: abs(a),
    "cmpi_eq": lambda a, b, _: a == b,
    "cmpi_ne": lambda a, b, _: a != b,
    "cmpi_slt": lambda a, b, _: a < b,
    "cmpi_sle": lambda a, b, _: a <= b,
    "cmpi_sgt": lambda a, b, _: a > b,
    "cmpi_sge": lambda a, b, _: a >= b,
    "cmpi_ult": lambda a, b, _: a < b,
    "cmpi_ule": lambda a, b, _: a <= b,
    "cmpi_ugt": lambda a, b, _: a > b,
    "cmpi_uge": lambda a, b, _: a >= b,
}


def _is_unsigned(name: str) -> bool:
    return name.endswith("ui") or name.startswith("cmpi_u")


# --- Casts ----------------------------------------------------------------------------------------


def float_to_integer(values: Values, bits: int, is_signed: bool) -> Integers:
    """Return integers rounded towards zero.

    Unsigned ones saturate at the limits, and NaN gives 0. Signed ones have at least 32 bits (the
    caller takes the low ones); NaN and numbers that do not fit give the lowest.
    """
    end = 1 << (max(bits, 32) - 1)
    highest = (1 << bits) - 1

    def to_signed(x: float) -> int:
        return int(x) if -end <= x < end else -end

    def to_unsigned(x: float) -> int:
        if math.isnan(x) or x <= 0:
            return 0
        return highest if math.isinf(x) else min(int(x), highest)

    convert = to_signed if is_signed else to_unsigned
    return np.asarray(np.vectorize(convert, otypes=[object])(values), dtype=object)


def integers_to_odd_floats(numbers: Integers) -> Values:
    """Return float64 values rounded to odd, so that rounding again equals rounding once."""

    def convert(number: int) -> float:
        size = abs(number)
        dropped = max(size.bit_length() - 53, 0)
        kept = size >> dropped
        odd = kept | (size != kept << dropped)
        return math.copysign(math.ldexp(odd, dropped), number)

    return _vectorized(convert, numbers)


# --- Running --------------------------------------------------------------------------------------


def exact(name: str, operand_type: str, *codes: Codes) -> Values:
    """Return the result of a float instruction before it is rounded."""
    with np.errstate(all="ignore"):
        operands = [decode_floats(operand_type, operand) for operand in codes]
        return np.asarray(FLOAT_FUNCTIONS[name](*operands), dtype=np.float64)


def _cast(name: str, operand_type: str, result_type: str, codes: Codes) -> Codes:
    bits = TYPES[result_type].bits
    match name:
        case "extf" | "truncf" | "convertf":
            return convert_floats(operand_type, result_type, codes)
        case "sitofp":
            values = integers_to_odd_floats(signed_integers(operand_type, codes))
            return encode_floats(result_type, values)
        case "uitofp":
            values = integers_to_odd_floats(unsigned_integers(operand_type, codes))
            return encode_floats(result_type, values)
        case "fptosi" | "fptoui":
            values = decode_floats(operand_type, codes)
            return encode_integers(
                result_type, float_to_integer(values, bits, is_signed=name == "fptosi")
            )
        case "extsi" | "trunci" | "index_cast":
            return encode_integers(result_type, signed_integers(operand_type, codes))
        case "extui" | "index_castui":
            return encode_integers(result_type, unsigned_integers(operand_type, codes))
        case "bitcast":
            return codes.astype(TYPES[result_type].code_dtype)
        case _:
            raise ValueError(f"the golden model has no instruction {name}")


def run(name: str, operand_type: str, result_type: str, *codes: Codes) -> Codes:
    """Return the codes of an instruction's result for arrays of codes."""
    if name == "philox":
        words = philox.blocks(codes[:4], codes[4:])
        return words[0].astype(TYPES[result_type].code_dtype)
    if name == "select":
        mask, first, second = codes
        return np.where(mask != 0, first, second)
    if name.startswith("cmpf_"):
        a, b = (decode_floats(operand_type, operand) for operand in codes)
        return compare_floats(name.removeprefix("cmpf_"), a, b).astype(np.uint8)
    if name in FLOAT_FUNCTIONS:
        return encode_floats(result_type, exact(name, operand_type, *codes))
    if name in INTEGER_FUNCTIONS:
        read = unsigned_integers if _is_unsigned(name) else signed_integers
        operands = [read(operand_type, operand) for operand in codes]
        function = _elementwise(INTEGER_FUNCTIONS[name], TYPES[operand_type].bits)
        # An instruction with one operand ignores the second.
        return encode_integers(result_type, function(operands[0], operands[-1]))
    return _cast(name, operand_type, result_type, codes[0])


def sort(
    keys: Sequence[float],
    indices: Sequence[int],
    *,
    descending: bool = False,
    first: int = 0,
    kept: int | None = None,
) -> tuple[list[float], list[int]]:
    """Return the keys of one row in order, and their indices: `kept` of them, from `first` on.

    Equal keys are in the order of their indices; a NaN is larger than all other keys, and equal to
    other NaNs.
    """

    def is_before(left: tuple[float, int], right: tuple[float, int]) -> bool:
        (a, a_index), (b, b_index) = left, right
        a_is_nan, b_is_nan = a != a, b != b
        if a == b or (a_is_nan and b_is_nan):
            return a_index < b_index
        is_smaller = b_is_nan or (not a_is_nan and a < b)
        return is_smaller != descending

    pairs: list[tuple[float, int]] = []
    for pair in zip(keys, indices, strict=True):
        position = sum(is_before(other, pair) for other in pairs)
        pairs.insert(position, pair)
    selected = pairs[first : len(pairs) if kept is None else first + kept]
    return [key for key, _ in selected], [index for _, index in selected]

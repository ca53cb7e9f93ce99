"""Elements of KTIR as NumPy values, and the vector instructions on them.

Floats are float64 arrays that hold values of their type exactly; integers are int64 arrays.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation

from torch_spyre import knobs
from torch_spyre.errors import KtirError
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects import spyreop
from torch_spyre.testing import instructions

Array = NDArray[Any]

_INTEGERS = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "cmpi_eq": np.equal,
    "cmpi_ne": np.not_equal,
    "cmpi_slt": np.less,
    "cmpi_sle": np.less_equal,
    "cmpi_sgt": np.greater,
    "cmpi_sge": np.greater_equal,
}
_FLOAT_CASTS = ("extf", "truncf")
_INTEGER_CASTS = ("extsi", "trunci", "index_cast")


def type_name(element: Attribute) -> str:
    """Return the name of an element type in the golden models."""
    if isinstance(element, IndexType):
        return "i64"
    name = str(element)
    return "f16_ieee" if name == "f16" and knobs.emulator.fp16 == "ieee" else name


def is_float(name: str) -> bool:
    return instructions.TYPES[name].is_float


def num_bytes(name: str) -> int:
    return max(instructions.TYPES[name].bits // 8, 1)


def decode(codes: Array, name: str) -> Array:
    """Return the values of codes in memory."""
    if is_float(name):
        return np.asarray(instructions.decode_floats(name, codes), dtype=np.float64)
    signed = codes.view(f"i{codes.dtype.itemsize}").astype(np.int64)
    return signed & 1 if name == "i1" else signed


def encode(values: Array, name: str) -> Array:
    """Return the codes of values that have the type already."""
    if is_float(name):
        return instructions.encode_floats(name, np.asarray(values, dtype=np.float64))
    return np.asarray(values).astype(instructions.TYPES[name].code_dtype)


def rounded(values: Array, name: str) -> Array:
    """Return results of arithmetic rounded to a type, or wrapped to its width."""
    if is_float(name):
        exact = np.asarray(values, dtype=np.float64)
        return decode(instructions.encode_floats(name, exact), name)
    bits = instructions.TYPES[name].bits
    if bits == 1:
        return np.asarray(values).astype(np.int64) & 1
    if bits == 64:
        return np.asarray(values, dtype=np.int64)
    lowest = -(1 << (bits - 1))
    return (np.asarray(values, dtype=np.int64) - lowest) % (1 << bits) + lowest


def instruction_name(operation: Operation) -> str:
    """Return the name of the vector instruction that an elementwise op is defined by."""
    mnemonic = operation.name.partition(".")[2]
    if isinstance(operation, spyreop.MulHighI32Op):
        return "mulhui"
    if isinstance(operation, ktir_arith.CmpfOp | ktir_arith.CmpiOp):
        return f"{mnemonic}_{operation.predicate_name}"
    return mnemonic


def apply(operation: Operation, operands: Sequence[Array], source: str, target: str) -> Array:
    """Return the result of an elementwise op on arrays that broadcast."""
    name = instruction_name(operation)
    with np.errstate(all="ignore"):
        if name == "select":
            mask, first, second = operands
            return np.where(mask != 0, first, second)
        if name.startswith("cmpf_"):
            left, right = np.broadcast_arrays(*operands)
            predicate = name.removeprefix("cmpf_")
            return instructions.compare_floats(predicate, left, right).astype(np.int64)
        if name in _INTEGERS:
            return rounded(_INTEGERS[name](*operands), target)
        if isinstance(operation, spyreop.SoftplusOp):
            constants = (operation.beta.value.data, operation.threshold.value.data)
            single = [np.asarray(np.float32(constant), np.float64) for constant in constants]
            return rounded(instructions.softplus(operands[0], *single), target)
        if name in instructions.FLOAT_FUNCTIONS:
            return rounded(instructions.FLOAT_FUNCTIONS[name](*operands), target)
        if name in instructions.INTEGER_FUNCTIONS or name == "philox":
            return _integer_function(name, operands, source, target)
        if len(operands) == 1:
            return _cast(name, operands[0], source, target)
    raise KtirError(f"the interpreter has no {operation.name}")


def _integer_function(name: str, operands: Sequence[Array], source: str, target: str) -> Array:
    """Apply a golden function of Python integers to every element."""
    arrays = np.broadcast_arrays(*operands)
    codes = [encode(array, source) for array in arrays]
    return decode(instructions.run(name, source, target, *codes), target)


def _cast(name: str, values: Array, source: str, target: str) -> Array:
    if name in _FLOAT_CASTS:
        codes = instructions.convert_floats(source, target, encode(values, source))
        return decode(codes, target)
    if name in _INTEGER_CASTS:
        return rounded(values, target)
    if name in ("extui", "index_castui"):
        return np.asarray(values) & ((1 << instructions.TYPES[source].bits) - 1)
    if name in ("sitofp", "uitofp"):
        unsigned = values & ((1 << instructions.TYPES[source].bits) - 1)
        # At most 32 bits, which float64 holds.
        return rounded((unsigned if name == "uitofp" else values).astype(np.float64), target)
    if name == "fptosi":
        lowest, end = -(2.0**31), 2.0**31
        fits = (values >= lowest) & (values < end)
        whole = np.trunc(np.where(fits, values, lowest))
        return rounded(whole.astype(np.int64), target)
    raise KtirError(f"the interpreter has no cast {name}")

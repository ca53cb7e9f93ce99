"""Tests of constant folding and of integer bounds against Python's integers."""

import math
import struct

from hypothesis import assume, given
from hypothesis import strategies as st

from torch_spyre.backend.lowering.registers import (
    Registers,
    bound,
    constant_fold,
    float32_bits,
)
from torch_spyre.backend.program.instructions import FIRST_FREE_REGISTER, ElementType

WIDTHS = {
    ElementType.I1: 1,
    ElementType.I8: 8,
    ElementType.I16: 16,
    ElementType.I32: 32,
    ElementType.I64: 64,
}
INTEGERS = sorted(WIDTHS)


def lanes(type):
    """Draw register values of this type: 0 or 1 for i1, signed integers otherwise."""
    if type is ElementType.I1:
        return st.integers(0, 1)
    half = 1 << (WIDTHS[type] - 1)
    small = st.integers(max(-half, -9), min(half - 1, 9))
    return small | st.integers(-half, half - 1)


def signed(lane, type):
    width = WIDTHS[type]
    value = lane & ((1 << width) - 1)
    return value - (1 << width) if value >> (width - 1) else value


def unsigned(lane, type):
    return lane & ((1 << WIDTHS[type]) - 1)


def as_lane(value, type):
    return unsigned(value, type) if type is ElementType.I1 else signed(value, type)


def truncated(a, b):
    return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


SIGNED = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": min,
    "maxsi": max,
    "divsi": truncated,
    "remsi": lambda a, b: a - b * truncated(a, b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -((-a) // b),
    "cmpi_eq": lambda a, b: a == b,
    "cmpi_ne": lambda a, b: a != b,
    "cmpi_slt": lambda a, b: a < b,
    "cmpi_sle": lambda a, b: a <= b,
    "cmpi_sgt": lambda a, b: a > b,
    "cmpi_sge": lambda a, b: a >= b,
}
UNSIGNED = {
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
    "ceildivui": lambda a, b: -((-a) // b),
    "minui": min,
    "maxui": max,
    "cmpi_ult": lambda a, b: a < b,
}
BINARY = SIGNED | UNSIGNED
CASTS = {"extsi": signed, "trunci": signed, "index_cast": signed}
CASTS |= {"extui": unsigned, "index_castui": unsigned}


def result_type(op, operand):
    return ElementType.I1 if op.startswith("cmpi") else operand


def evaluated(op, left, right, operand):
    read = signed if op in SIGNED else unsigned
    value = BINARY[op](read(left, operand), read(right, operand))
    return as_lane(int(value), result_type(op, operand))


@given(st.sampled_from(sorted(BINARY)), st.sampled_from(INTEGERS), st.data())
def test_a_constant_folded_op_equals_the_card_s_result(op, type, data):
    left, right = data.draw(lanes(type)), data.draw(lanes(type))
    constant = constant_fold(op, [left, right], type, result_type(op, type))
    assume(constant is not None)
    assert constant == evaluated(op, left, right, type)


def test_index_arithmetic_is_constant_folded():
    """Not folding would be right too, and would make every known size unknown."""
    for op in ("addi", "subi", "muli", "divsi", "remsi", "floordivsi", "ceildivsi", "divui"):
        assert constant_fold(op, [7, 3], ElementType.I64, ElementType.I64) is not None


def test_division_by_zero_is_left_to_the_card():
    for op in ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui"):
        assert constant_fold(op, [7, 0], ElementType.I64, ElementType.I64) is None
        assert bound(op, [(7, 7), (0, 3)], ElementType.I64, ElementType.I64) is None


@given(
    st.sampled_from(sorted(CASTS)), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.data()
)
def test_constant_folded_cast_reads_its_operand_with_the_operand_type(op, operand, result, data):
    lane = data.draw(lanes(operand))
    assert constant_fold(op, [lane], operand, result) == as_lane(CASTS[op](lane, operand), result)


def test_a_true_i1_is_minus_one_when_sign_extended():
    assert constant_fold("extsi", [1], ElementType.I1, ElementType.I64) == -1
    assert bound("extsi", [(0, 1)], ElementType.I1, ElementType.I64) == (-1, 0)
    assert constant_fold("extui", [1], ElementType.I1, ElementType.I64) == 1


@st.composite
def ranges(draw, type):
    low, high = sorted((draw(lanes(type)), draw(lanes(type))))
    return low, high


@st.composite
def bounded_ops(draw):
    op = draw(st.sampled_from(sorted(BINARY)))
    type = draw(st.sampled_from(INTEGERS))
    left, right = draw(st.none() | ranges(type)), draw(st.none() | ranges(type))
    # Of 64-bit integers without bounds it is assumed that they are not near the ends of 64 bits.
    anything = st.integers(-(2**62), 2**62) if type is ElementType.I64 else lanes(type)
    inside = [
        draw(anything if interval is None else st.integers(*interval)) for interval in (left, right)
    ]
    return op, type, left, right, inside


@given(bounded_ops())
def test_bounds_hold_for_all_operands_within_their_bounds(drawn):
    op, type, left, right, (a, b) = drawn
    bounds = bound(op, [left, right], type, result_type(op, type))
    assume(bounds is not None)
    assume(b != 0 or "div" not in op and "rem" not in op)
    assert bounds[0] <= evaluated(op, a, b, type) <= bounds[1]


def test_remainder_of_a_range_around_zero_is_bounded_by_the_divisor():
    """Its extremes are not at the ends of the range: 5 remsi 3 is 2, 7 remsi 3 is 1."""
    assert bound("remsi", [(-5, 7), (3, 3)], ElementType.I64, ElementType.I64) == (-2, 2)


def test_one_bounded_operand_is_enough_if_the_op_cannot_exceed_it():
    type = ElementType.I64
    assert bound("minsi", [None, (9, 9)], type, type)[1] == 9
    assert bound("minui", [(2, 9), None], type, type) == (0, 9)
    assert bound("remui", [None, (9, 9)], type, type) == (0, 8)
    assert bound("remsi", [None, (9, 9)], type, type) == (-8, 8)
    assert bound("andi", [None, (0, 7)], type, type) == (0, 7)
    assert bound("maxsi", [None, (0, 7)], type, type) is None


def test_results_that_may_wrap_around_have_no_bounds():
    wide = (0, 100_000)
    assert bound("muli", [wide, wide], ElementType.I32, ElementType.I32) is None
    assert bound("muli", [wide, wide], ElementType.I64, ElementType.I64) == (0, 10**10)
    assert bound("trunci", [(0, 1 << 40)], ElementType.I64, ElementType.I32) is None


@given(
    st.sampled_from(sorted(CASTS)), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.data()
)
def test_bounds_of_casts_hold(op, operand, result, data):
    interval = data.draw(ranges(operand))
    lane = data.draw(st.integers(*interval))
    bounds = bound(op, [interval], operand, result)
    assume(bounds is not None)
    assert bounds[0] <= as_lane(CASTS[op](lane, operand), result) <= bounds[1]


def test_a_select_needs_bounds_of_its_choices_only():
    type = ElementType.I64
    assert bound("select", [None, (1, 4), (-2, 3)], type, type) == (-2, 4)
    assert bound("select", [(0, 1), None, (-2, 3)], type, type) is None
    assert constant_fold("select", [1, 5, 6], type, type) == 5
    assert constant_fold("select", [0, 5, 6], type, type) == 6


def test_equal_constants_share_a_register():
    registers = Registers((2, 3, 1))
    seven = registers.constant(7)
    assert registers.constant(7) == seven >= FIRST_FREE_REGISTER
    assert registers.constant(8) != seven
    assert registers.constant_value(seven) == 7
    assert registers.bounds(seven) == (7, 7)
    assert {constant.bits for constant in registers.constants()} == {7, 8}


def test_core_ids_are_bounded_by_the_grid():
    registers = Registers((2, 3, 4))
    assert [registers.bounds(register) for register in range(4)] == [
        (0, 23),
        (0, 1),
        (0, 2),
        (0, 3),
    ]


@given(st.floats(width=32, allow_nan=False))
def test_floats_are_their_bits_in_a_register(value):
    bits = float32_bits(value).to_bytes(4, "little")
    assert struct.unpack("<f", bits) == (value,)


def test_a_float_beyond_float32_is_infinite():
    assert float32_bits(1e300) == float32_bits(math.inf)
    assert float32_bits(-1e300) == float32_bits(-math.inf)

"""Integer instructions, casts and select against the golden model."""

import numpy as np
import pytest
from vector_unit import (
    FLOAT_TYPES,
    INPUTS,
    INTEGER_TYPES,
    assert_same_codes,
    every_code,
    random_codes,
    random_inputs,
    run,
)

from torch_spyre.testing import instructions as golden

INTEGER_OPS = list(golden.INTEGER_FUNCTIONS)
INTEGER_CASTS = ["extsi", "extui", "trunci", "index_cast", "index_castui"]
FLOAT_CASTS = ["extf", "truncf", "convertf"]


def result_of(name: str, operand_type: str) -> str:
    return "i1" if name.startswith("cmpi") else operand_type


def test_every_instruction_of_the_engine_has_a_golden_one():
    casts = {"sitofp", "uitofp", "fptosi", "fptoui", "bitcast", *INTEGER_CASTS, *FLOAT_CASTS}
    comparisons = {name for name in INPUTS if name.startswith("cmpf_")}
    mixed = {"philox", "select"}
    known = set(golden.FLOAT_FUNCTIONS) | set(INTEGER_OPS) | casts | comparisons | mixed
    assert set(INPUTS) == known


@pytest.mark.parametrize("name", INTEGER_OPS)
def test_every_pair_of_8_bit_integers(name):
    a = np.repeat(every_code("i8"), 256)
    b = np.tile(every_code("i8"), 256)
    codes = (a, b)[: INPUTS[name]]
    result = result_of(name, "i8")
    expected = golden.run(name, "i8", result, *codes)
    assert_same_codes(result, run(name, "i8", result, *codes), expected)


@pytest.mark.parametrize("type_name", INTEGER_TYPES)
@pytest.mark.parametrize("name", INTEGER_OPS)
def test_random_integers_and_their_limits(name, type_name):
    codes = random_inputs(name, type_name, 3000)
    result = result_of(name, type_name)
    expected = golden.run(name, type_name, result, *codes)
    assert_same_codes(result, run(name, type_name, result, *codes), expected)


@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
@pytest.mark.parametrize("type_name", INTEGER_TYPES)
def test_shifts_of_every_amount_up_to_the_width_and_beyond(name, type_name):
    amounts = np.array([*range(70), -1, -64], dtype=object)
    b = golden.encode_integers(type_name, amounts)
    a = random_codes(type_name, 100, seed=4)[: len(b)]
    expected = golden.run(name, type_name, type_name, a, b)
    assert_same_codes(type_name, run(name, type_name, type_name, a, b), expected)


@pytest.mark.parametrize("type_name", INTEGER_TYPES[1:])
def test_division_by_zero_and_of_the_minimum(type_name):
    bits = golden.TYPES[type_name].bits
    smallest = golden.encode_integers(type_name, np.array([-(1 << (bits - 1))], dtype=object))
    zero = np.zeros_like(smallest)
    minus_one = ~zero
    for name in ("divui", "divsi", "floordivsi", "ceildivsi", "ceildivui"):
        assert run(name, type_name, type_name, smallest, zero) == 0
    for name in ("remui", "remsi"):
        assert run(name, type_name, type_name, smallest, zero) == smallest
    assert run("divsi", type_name, type_name, smallest, minus_one) == smallest
    assert run("remsi", type_name, type_name, smallest, minus_one) == 0


@pytest.mark.parametrize("type_name", [*FLOAT_TYPES, *INTEGER_TYPES])
def test_select_takes_whole_elements(type_name):
    codes = random_inputs("select", type_name, 1000)
    expected = golden.run("select", type_name, type_name, *codes)
    assert_same_codes(type_name, run("select", type_name, type_name, *codes), expected)


# --- Casts ----------------------------------------------------------------------------------------


def check_cast(name: str, operand_type: str, result_type: str) -> None:
    codes = random_codes(operand_type, 5000, seed=6)
    expected = golden.run(name, operand_type, result_type, codes)
    assert_same_codes(result_type, run(name, operand_type, result_type, codes), expected)


@pytest.mark.parametrize("result_type", INTEGER_TYPES)
@pytest.mark.parametrize("operand_type", INTEGER_TYPES)
@pytest.mark.parametrize("name", INTEGER_CASTS)
def test_integer_casts(name, operand_type, result_type):
    check_cast(name, operand_type, result_type)


@pytest.mark.parametrize("float_type", FLOAT_TYPES)
@pytest.mark.parametrize("integer_type", INTEGER_TYPES)
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
def test_integer_to_float_rounds_to_nearest(name, integer_type, float_type):
    check_cast(name, integer_type, float_type)


@pytest.mark.parametrize("float_type", FLOAT_TYPES)
@pytest.mark.parametrize("integer_type", INTEGER_TYPES)
@pytest.mark.parametrize("name", ["fptosi", "fptoui"])
def test_float_to_integer_truncates_and_saturates(name, integer_type, float_type):
    check_cast(name, float_type, integer_type)


@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
def test_large_integers_round_once(name):
    """2^60 + 2^36 + 1 is above a tie of float32 by less than the precision of float64."""
    codes = np.array([2**60 + 2**36 + 1, 2**60 + 2**36, 2**60 + 2**36 - 1], dtype=np.uint64)
    expected = golden.run(name, "i64", "f32", codes)
    assert expected[0] == expected[1] + 1
    assert_same_codes("f32", run(name, "i64", "f32", codes), expected)


@pytest.mark.parametrize("result_type", FLOAT_TYPES)
@pytest.mark.parametrize("operand_type", FLOAT_TYPES)
@pytest.mark.parametrize("name", FLOAT_CASTS)
def test_float_to_float_rounds_to_nearest(name, operand_type, result_type):
    check_cast(name, operand_type, result_type)


@pytest.mark.parametrize(
    ("operand_type", "result_type"),
    [
        *(("f16", "i16"), ("bf16", "i16"), ("f32", "i32"), ("f8E4M3FN", "i8")),
        *(("f8E5M2FNUZ", "i8"), ("f16", "bf16"), ("f8E4M3FN", "f8E5M2FNUZ")),
    ],
)
def test_bitcast_preserves_the_code(operand_type, result_type):
    codes = random_codes(operand_type, 3000, seed=8)
    number = ~np.isnan(golden.decode_floats(operand_type, codes))
    actual = run("bitcast", operand_type, result_type, codes)
    assert_same_codes(result_type, actual[number], codes[number])
    back = run("bitcast", result_type, operand_type, actual)
    assert_same_codes(operand_type, back, codes)

"""Float instructions against the golden model."""

import os
import subprocess
import sys

import numpy as np
import pytest
import vector_unit
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_unit import (
    FLOAT_TYPES,
    INPUTS,
    SMALL_FLOAT_TYPES,
    UNARY_FLOAT_OPS,
    assert_same_codes,
    assert_within_ulps,
    every_code,
    random_codes,
    random_inputs,
    run,
)

from torch_spyre import _C
from torch_spyre.testing import instructions as golden

# Correctly rounded, whatever the operands.
EXACT_OPS = [
    *("addf", "subf", "mulf", "divf", "remf", "negf", "absf", "maximumf", "minimumf", "maxnumf"),
    *("minnumf", "copysign", "fma", "sqrt", "ceil", "floor", "round", "roundeven", "trunc"),
    "reciprocal",
]
FUNCTIONS = [
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "tanh", "sin", "cos"),
    *("erf", "sigmoid", "silu", "gelu"),
]
PREDICATES = [name for name in INPUTS if name.startswith("cmpf_")]


def test_the_lists_above_miss_no_instruction():
    several = {"powf", "softplus", "layernormscale"}
    assert set(EXACT_OPS) | set(FUNCTIONS) | several == set(golden.FLOAT_FUNCTIONS)
    assert len(PREDICATES) == 16


@pytest.mark.parametrize("type_name", SMALL_FLOAT_TYPES)
@pytest.mark.parametrize("name", UNARY_FLOAT_OPS)
def test_unary_instructions_are_right_for_every_code(name, type_name):
    codes = every_code(type_name)
    actual = run(name, type_name, type_name, codes)
    exact = golden.exact(name, type_name, codes)
    if name in FUNCTIONS:
        assert_within_ulps(type_name, actual, exact, 0.502)
    else:
        assert_same_codes(type_name, actual, golden.encode_floats(type_name, exact))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_functions_are_within_one_ulp(name):
    codes = random_codes("f32", 200_000, seed=1)
    exact = golden.exact(name, "f32", codes)
    assert_within_ulps("f32", run(name, "f32", "f32", codes), exact, 1.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_functions_have_the_right_values_at_the_ends(name):
    ends = np.array([np.inf, np.nan, 0, np.finfo(np.float32).max, np.finfo(np.float32).tiny])
    codes = np.concatenate([ends, -ends]).astype(np.float32).view(np.uint32)
    with np.errstate(all="ignore"):
        exact = golden.exact(name, "f32", codes)
    assert_within_ulps("f32", run(name, "f32", "f32", codes), exact, 1.0)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_near_multiples_of_half_pi_is_accurate(name):
    quarters = np.arange(1, 200_000, dtype=np.float64) * (np.pi / 2)
    codes = np.concatenate([quarters, quarters * 2.0**40]).astype(np.float32).view(np.uint32)
    exact = golden.exact(name, "f32", codes)
    assert_within_ulps("f32", run(name, "f32", "f32", codes), exact, 1.0)


@pytest.mark.parametrize("type_name", FLOAT_TYPES)
@pytest.mark.parametrize("name", EXACT_OPS)
def test_exact_instructions_give_the_rounded_exact_result(name, type_name):
    codes = random_inputs(name, type_name, 100_000)
    expected = golden.run(name, type_name, type_name, *codes)
    assert_same_codes(type_name, run(name, type_name, type_name, *codes), expected)


@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf", "remf", "fma"])
@settings(max_examples=200, deadline=None)
@given(codes=st.lists(st.integers(0, 0xFFFF), min_size=3, max_size=3))
def test_any_sen169_operands_give_the_rounded_exact_result(name, codes):
    inputs = [np.array([code], dtype=np.uint16) for code in codes[: INPUTS[name]]]
    assert_same_codes(
        "f16", run(name, "f16", "f16", *inputs), golden.run(name, "f16", "f16", *inputs)
    )


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("addf", (1.0, 2.0**-10), 1 + 2.0**-9),
        ("subf", (-1.0, 2.0**-10), -1 - 2.0**-9),
        ("mulf", (1 + 2.0**-5, 1 + 2.0**-5), 1 + 2.0**-4 + 2.0**-9),
        ("fma", (1.0, 1.0, 2.0**-10), 1 + 2.0**-9),
        # Just below the middle, by less than float32 would see.
        ("fma", (1 + 2.0**-9, 2.0**-10 - 2.0**-19, 1.0), 1.0),
    ],
)
def test_ties_of_sen169_round_away_from_zero(name, operands, expected):
    codes = [golden.encode_floats("f16", np.array([x])) for x in operands]
    result = golden.decode_floats("f16", run(name, "f16", "f16", *codes))
    assert result[0] == expected


@pytest.mark.parametrize("type_name", FLOAT_TYPES)
@pytest.mark.parametrize("name", ["powf", "softplus", "layernormscale"])
def test_functions_of_several_operands_are_within_one_ulp(name, type_name):
    codes = random_inputs(name, type_name, 100_000)
    exact = golden.exact(name, type_name, *codes)
    limit = 1.0 if type_name == "f32" else 0.502
    assert_within_ulps(type_name, run(name, type_name, type_name, *codes), exact, limit)


@pytest.mark.parametrize("type_name", FLOAT_TYPES)
@pytest.mark.parametrize("name", PREDICATES)
def test_comparisons(name, type_name):
    a = random_codes(type_name, 5000, seed=1)
    b = np.where(np.arange(len(a)) % 3 == 0, a, random_codes(type_name, 5000, seed=2))
    expected = golden.run(name, type_name, "i1", a, b)
    assert_same_codes("i1", run(name, type_name, "i1", a, b), expected)


@pytest.mark.parametrize("name", ["addf", "mulf", "exp", "gelu"])
def test_narrow_operands_may_give_a_float32_result(name):
    codes = random_inputs(name, "f16", 50_000)
    exact = golden.exact(name, "f16", *codes)
    assert_within_ulps("f32", run(name, "f16", "f32", *codes), exact, 0.502)


# --- IEEE binary16 in place of SEN169: a setting of the whole process -----------------------------

IEEE_SCRIPT = """
import sys, numpy, torch, torch_spyre
sys.path.insert(0, sys.argv[1])
from vector_unit import INPUTS, UNARY_FLOAT_OPS, every_code, random_inputs, run
torch.empty(1, device="spyre")
results = {name: run(name, "f16", "f16", every_code("f16")) for name in UNARY_FLOAT_OPS}
for name in ("addf", "subf", "mulf", "divf", "remf", "fma", "powf"):
    results[name] = run(name, "f16", "f16", *random_inputs(name, "f16_ieee", 100_000))
numpy.savez(sys.argv[2], **results)
"""


@pytest.fixture(scope="module")
def ieee_results(tmp_path_factory):
    path = tmp_path_factory.mktemp("ieee") / "results.npz"
    command = [sys.executable, "-c", IEEE_SCRIPT, os.path.dirname(vector_unit.__file__), str(path)]
    environment = {**os.environ, "SPYRE_EMU_FP16": "ieee"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(path) as saved:
        return dict(saved)


@pytest.mark.parametrize("name", UNARY_FLOAT_OPS)
def test_unary_instructions_are_right_for_every_binary16_code(name, ieee_results):
    codes = every_code("f16_ieee")
    exact = golden.exact(name, "f16_ieee", codes)
    if name in FUNCTIONS:
        assert_within_ulps("f16_ieee", ieee_results[name], exact, 0.502)
    else:
        expected = golden.encode_floats("f16_ieee", exact)
        assert_same_codes("f16_ieee", ieee_results[name], expected)


@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf", "remf", "fma"])
def test_binary16_arithmetic_gives_the_rounded_exact_result(name, ieee_results):
    codes = random_inputs(name, "f16_ieee", 100_000)
    expected = golden.run(name, "f16_ieee", "f16_ieee", *codes)
    assert_same_codes("f16_ieee", ieee_results[name], expected)


def test_binary16_powers_are_within_one_ulp(ieee_results):
    codes = random_inputs("powf", "f16_ieee", 100_000)
    exact = golden.exact("powf", "f16_ieee", *codes)
    assert_within_ulps("f16_ieee", ieee_results["powf"], exact, 0.502)


# --- Invalid arguments ----------------------------------------------------------------------------


def test_invalid_arguments_raise():
    one = [np.zeros(4, dtype=np.uint16)]
    with pytest.raises(ValueError, match="no instruction 'frobnicate'"):
        run("frobnicate", "f16", "f16", *one)
    with pytest.raises(ValueError, match="addf does not exist from f32 to f16"):
        run("addf", "f32", "f16", *one)
    with pytest.raises(ValueError, match="'f17' is no element type"):
        _C._vector_op("addf", "f17", "f16", [])
    with pytest.raises(ValueError, match="addf takes 2 inputs, not 1"):
        run("addf", "f16", "f16", *one)
    with pytest.raises(ValueError, match="host tensors of 4 codes of 2 bytes"):
        run("addf", "f16", "f16", *one, np.zeros(5, dtype=np.uint16))
    with pytest.raises(ValueError, match="host tensors of 4 codes of 2 bytes"):
        run("addf", "f16", "f16", *one, np.zeros(4, dtype=np.uint32))


def test_empty_input_gives_empty_output():
    empty = np.zeros(0, dtype=np.uint16)
    assert run("addf", "f16", "f16", empty, empty).size == 0

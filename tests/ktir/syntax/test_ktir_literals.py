"""Number literals: hexadecimal bit patterns, dense constants, overflow."""

import math

import pytest
from ktir_texts import assert_rejected, function, line_with, round_trip

from torch_spyre import ktir


def constant(literal):
    return next(
        op
        for op in ktir.load(function(f"%c = arith.constant {literal}")).operation.walk()
        if op.name == "arith.constant"
    ).value


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0xFC00 : f16", -math.inf),
        ("0x7C00 : f16", math.inf),
        ("0x3C00 : f16", 1.0),
        ("0xFF80 : bf16", -math.inf),
        ("0x3F800000 : f32", 1.0),
        ("-2.5 : f16", -2.5),
        ("1.0e-7 : f16", 2.0**-23),
        ("1.0e6 : f16", math.inf),
        ("-1.0e39 : f32", -math.inf),
        ("3 : f16", 3.0),
    ],
)
def test_float_literals(literal, value):
    assert constant(literal).value.data == pytest.approx(value, rel=0.2)
    round_trip(f"%c = arith.constant {literal}")


@pytest.mark.parametrize(
    ("literal", "value"), [("0x10 : i32", 16), ("-5 : index", -5), ("true", 1), ("7 : i64", 7)]
)
def test_integer_literals(literal, value):
    assert abs(constant(literal).value.data) == abs(value)
    round_trip(f"%c = arith.constant {literal}")


def test_nan_literals_round_trip():
    assert math.isnan(constant("0x7E00 : f16").value.data)
    round_trip("%c = arith.constant 0x7E00 : f16")
    round_trip("%c = arith.constant dense<0x7E00> : tensor<4xf16>")


@pytest.mark.parametrize(
    ("literal", "values"),
    [
        ("dense<0.5> : tensor<3xf16>", [0.5] * 3),
        ("dense<[1.0, 2.0]> : tensor<2xf16>", [1.0, 2.0]),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", [1, 2, 3, 4]),
        ("dense<0xFC00> : tensor<2xf16>", [-math.inf] * 2),
        ("dense<[0x3C00, 0xFC00]> : tensor<2xf16>", [1.0, -math.inf]),
        ("dense<0x10> : tensor<2xi32>", [16, 16]),
        ("dense<true> : tensor<2xi1>", [1, 1]),
        ("dense<1.0e6> : tensor<2xf16>", [math.inf] * 2),
        ("dense<[0.0, -0.0]> : tensor<2xf16>", [0.0, -0.0]),
        ("dense<2.0> : tensor<f16>", [2.0]),
        ("dense<> : tensor<0xf16>", []),
    ],
)
def test_dense_literals(literal, values):
    actual = constant(literal).get_values()
    assert [abs(value) for value in actual] == [abs(value) for value in values]
    round_trip(f"%c = arith.constant {literal}")


def test_zeros_of_both_signs_are_not_a_splat():
    text = round_trip("%c = arith.constant dense<[0.0, -0.0]> : tensor<2xf16>")
    assert line_with(text, "constant") == '%c = arith.constant dense<"0x00000080"> : tensor<2xf16>'


def test_a_large_splat_prints_as_a_splat():
    text = round_trip("%c = arith.constant dense<0.5> : tensor<1024x1024xf16>")
    assert "dense<5.000000e-01> : tensor<1024x1024xf16>" in text


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ("0x1FC00 : f16", "too many bits for f16"),
        ("-0xFC00 : f16", "bit pattern and has no sign"),
        ("dense<0x1FC00> : tensor<2xf16>", "too many bits for f16"),
        ("dense<[1.0, 2.0]> : tensor<3xf16>", r"the literal has shape \[2\], its type \[3\]"),
        ("dense<[[1.0], [1.0, 2.0]]> : tensor<2x2xf16>", "inconsistent ranks"),
        ("dense<1.0> : tensor<4xi32>", "Expected integer value"),
        ("dense<1.0> : tensor<?xf16>", "static shape"),
        ("dense<1.0> : tensor<100000x100000xf16>", "the limit is"),
        ("1.5 : i32", "not valid for integer type"),
        ("70000000000 : i32", "out of range|range"),
        ("dense<70000000000> : tensor<2xi32>", "range"),
    ],
)
def test_an_invalid_literal_is_rejected(literal, message):
    assert_rejected(f"%c = arith.constant {literal}", message)

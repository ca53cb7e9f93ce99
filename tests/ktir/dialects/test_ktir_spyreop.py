"""Scalar intrinsics of `spyreop`: syntax and verification."""

import pytest
from ktir_texts import assert_rejected, line_with, round_trip

ARGUMENTS = "%x: f16, %b: bf16, %s: f32, %d: f64, %i: i32, %j: i64, %t: tensor<4xf16>"
UNARY = ("exp", "layernormscale", "reciprocal", "sigmoid", "silu", "sqrt", "rsqrt")


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize(("value", "kind"), [("x", "f16"), ("s", "f32"), ("b", "bf16")])
def test_unary_intrinsics_accept_16_and_32_bit_floats(name, value, kind):
    line = f"%y = spyreop.{name} %{value} : {kind}"
    assert line_with(round_trip(line, arguments=ARGUMENTS), "spyreop") == line


@pytest.mark.parametrize(
    "line",
    [
        "%y = spyreop.gelu %x : f16",
        "%y = spyreop.realdiv %x, %x : f16",
        "%y = spyreop.softplus %x beta 1.000000e+00 threshold 2.000000e+01 : f16",
        "%y = spyreop.addi32toi32 %i, %i",
        "%y = spyreop.muli32toi32 %i, %i",
        "%y = spyreop.addi64toi64 %j, %j",
        "%y = spyreop.idx32toaddr %i base 0x1000 stride 128",
    ],
)
def test_an_intrinsic_prints_as_written(line):
    assert line_with(round_trip(line, arguments=ARGUMENTS), "spyreop") == line


def test_softplus_accepts_integer_parameters():
    round_trip("%y = spyreop.softplus %x beta 1.0 threshold 20 : f16", arguments=ARGUMENTS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y = spyreop.exp %t : tensor<4xf16>", "a scalar of type bf16, f16, f32|f16, bf16, f32"),
        ("%y = spyreop.exp %d : f64", "a scalar of type"),
        ("%y = spyreop.exp %i : i32", "a scalar of type"),
        ("%y = spyreop.gelu %s : f32", "a scalar of type"),
        ("%y = spyreop.realdiv %x, %s : f16", "has been previously used or defined"),
        ("%y = spyreop.softplus %x beta 0.0 threshold 20.0 : f16", "beta must not be zero"),
        ("%y = spyreop.softplus %x threshold 20.0 : f16", "beta"),
        ("%y = spyreop.addi32toi32 %j, %j", "has been previously used or defined"),
        ("%y = spyreop.addi64toi64 %i, %i", "has been previously used or defined"),
        ("%y = spyreop.idx32toaddr %i base 1", "stride"),
        ("%y = spyreop.unheard %x : f16", "unknown op spyreop.unheard"),
    ],
)
def test_an_invalid_intrinsic_is_rejected(line, message):
    assert_rejected(line, message, arguments=ARGUMENTS)


SORTED = "tensor<4x8xf16>, %indices: tensor<4x8xi32>, %first: index"
SORT_ARGUMENTS = f"%keys: {SORTED}, %wide: tensor<4x8xi64>"


@pytest.mark.parametrize(
    "options",
    ["", " descending", " runs 4", " descending runs 4 from %first"],
)
def test_a_sort_prints_as_written(options):
    line = f"%v, %o = spyreop.sort %keys, %indices{options} : tensor<4x8xf16> -> tensor<4x5xf16>"
    assert line_with(round_trip(line, arguments=SORT_ARGUMENTS), "spyreop") == line


@pytest.mark.parametrize(
    ("operands", "types", "message"),
    [
        ("%keys, %indices", "tensor<4x8xf16> -> tensor<4x9xf16>", "has no result of shape"),
        ("%keys, %indices", "tensor<4x8xf16> -> tensor<3x8xf16>", "not to"),
        ("%keys, %indices", "tensor<4x8xf16> -> tensor<4x8xf32>", "not to"),
        ("%keys, %indices runs 0", "tensor<4x8xf16> -> tensor<4x8xf16>", "at least one element"),
        ("%keys, %indices from %first", "tensor<4x8xf16> -> tensor<4x3xf16>", "half or more"),
        ("%wide, %indices", "tensor<4x8xi64> -> tensor<4x8xi64>", "at most 32 bits"),
        ("%keys, %wide", "tensor<4x8xf16> -> tensor<4x8xf16>", "previously used or defined"),
        ("%keys, %indices", "f16 -> f16", "a tensor of at least one dim"),
    ],
)
def test_an_invalid_sort_is_rejected(operands, types, message):
    assert_rejected(
        f"%v, %o = spyreop.sort {operands} : {types}", message, arguments=SORT_ARGUMENTS
    )

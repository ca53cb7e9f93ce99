"""Rules of tensor, linalg and scf beyond xDSL's verifiers."""

import pytest
from ktir_texts import assert_rejected, round_trip

ARGUMENTS = (
    "%b: i1, %n: index, %h: f16, %s: f32, %x: tensor<4xf32>, %y: tensor<4xf16>, "
    "%i: tensor<4xi32>, %m: tensor<4x8xf32>, %z: tensor<f32>, %d: tensor<?x8xf32>"
)


def generic(yielded, result="tensor<4xf32>", body=()):
    lines = "\n".join(body)
    return (
        "%r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], "
        'iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {\n'
        f"^bb0(%in: f32, %out: f32):\n{lines}\nlinalg.yield {yielded}\n}} -> {result}"
    )


RULES = [
    ("%r = tensor.empty() : tensor<?xf32>", "0 sizes for 1 dims `\\?`"),
    ("%r = tensor.empty(%n) : tensor<4xf32>", "1 sizes for 0 dims"),
    ("%r = tensor.from_elements %s, %s : tensor<3xf32>", "2 elements for 3 elements of its result"),
    ("%r = tensor.extract %x[%n, %n] : tensor<4xf32>", "2 indices for 1 dims"),
    ("%r = tensor.insert %s into %m[%n] : tensor<4x8xf32>", "1 indices for 2 dims"),
    (
        "%r = tensor.extract_slice %x[0] [2] [1] : tensor<4xf32> to tensor<3xf32>",
        "a slice of 2 elements of tensor<4xf32> is not a tensor<3xf32>",
    ),
    (
        "%r = tensor.extract_slice %x[0] [2] [1] : tensor<4xf32> to tensor<2xf16>",
        "is not a tensor<2xf16>",
    ),
    (
        "%r = tensor.extract_slice %m[0, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>",
        "a slice of 2x8 elements of tensor<4x8xf32> is not a tensor<8xf32>",
    ),
    (
        "%r = tensor.insert_slice %x into %m[0, 0] [1, 5] [1, 1] "
        ": tensor<4xf32> into tensor<4x8xf32>",
        "a slice of 1x5 elements of tensor<4x8xf32> is not a tensor<4xf32>",
    ),
    (
        "%r = linalg.transpose ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) permutation = [1]",
        "\\[1\\] is not a permutation of 1 dims",
    ),
    (
        "%r = linalg.transpose ins(%x : tensor<4xf32>) outs(%y : tensor<4xf16>) permutation = [0]",
        "tensor<4xf32> and tensor<4xf16> have different element types",
    ),
    (
        "%r = linalg.broadcast ins(%y : tensor<4xf16>) outs(%m : tensor<4x8xf32>) dimensions = [1]",
        "have different element types",
    ),
    (
        "%r = linalg.broadcast ins(%x : tensor<4xf32>) outs(%m : tensor<4x8xf32>) dimensions = [0]",
        "tensor<4xf32> is not tensor<4x8xf32> without its dimensions \\[0\\]",
    ),
    (
        "%r = linalg.broadcast ins(%x : tensor<4xf32>) outs(%m : tensor<4x8xf32>) dimensions = [2]",
        "dimensions \\[2\\] of a tensor of 2 dims",
    ),
    ("%r = tensor.cast %x : tensor<4xf32> to tensor<4xf16>", "have different element types"),
    (
        "%r = tensor.collapse_shape %m [[0, 1]] : tensor<4x8xf32> into tensor<32xf16>",
        "have different element types",
    ),
    (
        "%r = linalg.reduce { arith.addf } ins(%x : tensor<4xf32>) outs(%z : tensor<f32>) "
        "dimensions = [3]",
        "dimensions \\[3\\] of a tensor of 1 dims",
    ),
    (
        "%r = linalg.reduce { arith.addf } ins(%m : tensor<4x8xf32>) outs(%z : tensor<f32>) "
        "dimensions = [0, 0]",
        "dimensions \\[0, 0\\] of a tensor of 2 dims",
    ),
    (
        "%r = linalg.reduce ins(%x : tensor<4xf32>) outs(%z : tensor<f32>) dimensions = [0]\n"
        "(%in: f32, %out: f32) {\nlinalg.yield %h : f16\n}",
        "its region yields f16 instead of f32",
    ),
    (
        "%r = linalg.fill ins(%s : f32) outs(%x : tensor<4xf32>) -> tensor<5xf32>",
        "the result is tensor<5xf32>, and the outs are tensor<4xf32>",
    ),
    (generic("%in : f32", "tensor<4xf16>"), "the result is tensor<4xf16>"),
    (generic("%h : f16"), "its region yields f16 instead of f32"),
    (generic(""), "its region yields nothing instead of f32"),
    (generic("%in, %in : f32, f32"), "its region yields f32, f32 instead of f32"),
    (generic("%in : f32", body=["%at = linalg.index 1 : index"]), "linalg.index: loop 1 of 1"),
    ("%r = scf.if %b -> (f32) {\nscf.yield %s : f32\n}", "has results but no else"),
    (
        "%r = scf.if %b -> (f32) {\nscf.yield %s : f32\n} else {\nscf.yield %h : f16\n}",
        "its region yields f16 instead of f32",
    ),
    (
        "%r = linalg.exp ins(%n : index) outs(%x : tensor<4xf32>) -> tensor<4xf32>",
        "linalg.exp: its operands, types and attributes do not match",
    ),
    (
        "%r = linalg.select ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%x : tensor<4xf32>) "
        "-> tensor<4xf32>",
        "linalg.select: its operands, types and attributes do not match",
    ),
    (
        "%r = linalg.exp ins(%i : tensor<4xi32>) outs(%i : tensor<4xi32>) -> tensor<4xi32>",
        # An op without its own location is reported at its parent.
        "3:6: math.exp",
    ),
]


@pytest.mark.parametrize(("line", "problem"), RULES)
def test_a_violation_is_reported_at_its_op(line, problem):
    assert_rejected(line, problem, arguments=ARGUMENTS)


@pytest.mark.parametrize(
    "line",
    [
        "%r = tensor.extract_slice %m[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>",
        "%r = tensor.extract_slice %m[0, 0] [1, 1] [1, 1] : tensor<4x8xf32> to tensor<f32>",
        "%r = tensor.extract_slice %m[0, 0] [1, 1] [1, 1] : tensor<4x8xf32> to tensor<1xf32>",
        "%r = tensor.extract_slice %m[0, 0] [1, %n] [1, 1] : tensor<4x8xf32> to tensor<?xf32>",
        "%r = tensor.insert_slice %z into %m[%n, 0] [1, 1] [1, 1] "
        ": tensor<f32> into tensor<4x8xf32>",
        "%r = linalg.fill ins(%s : f32) outs(%d : tensor<?x8xf32>) -> tensor<?x8xf32>",
    ],
)
def test_slices_may_drop_dims_of_size_1_and_be_dynamic(line):
    round_trip(line, arguments=ARGUMENTS)

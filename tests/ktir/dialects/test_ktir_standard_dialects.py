"""Ops of arith, math, linalg, tensor and scf: parsing, printing and verification."""

import pytest
from ktir_texts import assert_rejected, function, line_with, round_trip

from torch_spyre import ktir

ARGUMENTS = (
    "%h: f16, %s: f32, %i: i32, %j: i64, %n: index, %b: i1, %t: tensor<4x8xf16>, "
    "%u: tensor<4x8xf32>, %v: tensor<4x8xi32>, %w: tensor<4x8xi64>, %m: tensor<4x8xi1>, "
    "%x: tensor<4x8xindex>, %l: tensor<4xf16>, %a3: tensor<2x4x8xf16>, %b3: tensor<2x8x4xf16>, "
    "%c3: tensor<2x4x4xf16>, %one: tensor<1x1xf16>, %r0: tensor<f16>, %sh: tensor<2xindex>"
)


def assert_prints_as_written(line):
    assert line_with(round_trip(line, arguments=ARGUMENTS), "%y =") == line


FLOAT = ("addf", "subf", "mulf", "divf", "remf", "maximumf", "maxnumf", "minimumf", "minnumf")
INTEGER = (
    "addi", "subi", "muli", "divui", "divsi", "floordivsi", "ceildivsi", "ceildivui", "remui",
    "remsi", "andi", "ori", "xori", "shli", "shrsi", "shrui", "minsi", "maxsi", "minui", "maxui",
)  # fmt: skip
CMPF = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
MATH = (
    "exp", "sqrt", "rsqrt", "log", "log2", "log1p", "tanh", "sin", "cos", "erf", "ceil", "floor",
    "absf",
)  # fmt: skip


@pytest.mark.parametrize("name", FLOAT)
@pytest.mark.parametrize(("value", "kind"), [("h", "f16"), ("s", "f32"), ("t", "tensor<4x8xf16>")])
def test_float_arithmetic(name, value, kind):
    assert_prints_as_written(f"%y = arith.{name} %{value}, %{value} : {kind}")


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize(
    ("value", "kind"), [("n", "index"), ("i", "i32"), ("v", "tensor<4x8xi32>")]
)
def test_integer_arithmetic(name, value, kind):
    assert_prints_as_written(f"%y = arith.{name} %{value}, %{value} : {kind}")


@pytest.mark.parametrize("predicate", CMPF)
def test_float_comparisons(predicate):
    assert_prints_as_written(f"%y = arith.cmpf {predicate}, %h, %h : f16")


@pytest.mark.parametrize("predicate", CMPI)
def test_integer_comparisons(predicate):
    assert_prints_as_written(f"%y = arith.cmpi {predicate}, %n, %n : index")


@pytest.mark.parametrize("name", MATH)
def test_math_on_scalars_and_tensors(name):
    assert_prints_as_written(f"%y = math.{name} %t : tensor<4x8xf16>")
    assert_prints_as_written(f"%y = math.{name} %s : f32")


@pytest.mark.parametrize(
    "line",
    [
        "%y = arith.negf %t : tensor<4x8xf16>",
        "%y = arith.cmpf ogt, %t, %t : tensor<4x8xf16>",
        "%y = arith.cmpi slt, %v, %v : tensor<4x8xi32>",
        "%y = arith.select %b, %t, %t : tensor<4x8xf16>",
        "%y = arith.select %m, %t, %t : tensor<4x8xi1>, tensor<4x8xf16>",
        "%y = arith.select %b, %n, %n : index",
        "%y = arith.extf %t : tensor<4x8xf16> to tensor<4x8xf32>",
        "%y = arith.truncf %s : f32 to f16",
        "%y = arith.convertf %s : f32 to bf16",
        "%y = arith.extsi %v : tensor<4x8xi32> to tensor<4x8xi64>",
        "%y = arith.extui %m : tensor<4x8xi1> to tensor<4x8xi32>",
        "%y = arith.trunci %j : i64 to i32",
        "%y = arith.fptosi %t : tensor<4x8xf16> to tensor<4x8xi32>",
        "%y = arith.fptoui %h : f16 to i32",
        "%y = arith.uitofp %i : i32 to f32",
        "%y = arith.sitofp %v : tensor<4x8xi32> to tensor<4x8xf16>",
        "%y = arith.index_cast %x : tensor<4x8xindex> to tensor<4x8xi32>",
        "%y = arith.index_cast %i : i32 to index",
        "%y = arith.index_castui %n : index to i64",
        "%y = arith.bitcast %v : tensor<4x8xi32> to tensor<4x8xf32>",
        "%y = math.absi %v : tensor<4x8xi32>",
        "%y = math.powf %t, %t : tensor<4x8xf16>",
        "%y = math.fma %t, %t, %t : tensor<4x8xf16>",
        "%y = tensor.empty() : tensor<4x8xf16>",
        "%y = tensor.empty(%n) : tensor<?x8xf16>",
        "%y = tensor.splat %h : tensor<4x8xf16>",
        "%y = tensor.extract %t[%n, %n] : tensor<4x8xf16>",
        "%y = tensor.extract %r0[] : tensor<f16>",
        "%y = tensor.from_elements %h, %h : tensor<2xf16>",
        "%y = tensor.collapse_shape %t [[0, 1]] : tensor<4x8xf16> into tensor<32xf16>",
        "%y = tensor.collapse_shape %one [] : tensor<1x1xf16> into tensor<f16>",
        "%y = tensor.expand_shape %l [[0, 1]] output_shape [2, 2] : tensor<4xf16> into "
        "tensor<2x2xf16>",
        "%y = tensor.expand_shape %r0 [] output_shape [1, 1] : tensor<f16> into tensor<1x1xf16>",
        "%y = tensor.extract_slice %t[0, %n] [4, 2] [1, 1] : tensor<4x8xf16> to tensor<4x2xf16>",
        "%y = tensor.insert_slice %l into %t[%n, 0] [1, 4] [1, 1] : tensor<4xf16> into "
        "tensor<4x8xf16>",
        "%y = linalg.batch_matmul ins(%a3, %b3 : tensor<2x4x8xf16>, tensor<2x8x4xf16>) "
        "outs(%c3 : tensor<2x4x4xf16>) -> tensor<2x4x4xf16>",
        "%y = linalg.fill ins(%h : f16) outs(%t : tensor<4x8xf16>) -> tensor<4x8xf16>",
        "%y = linalg.reciprocal ins(%t : tensor<4x8xf16>) outs(%t : tensor<4x8xf16>) -> "
        "tensor<4x8xf16>",
    ],
)
def test_an_op_prints_as_written(line):
    assert_prints_as_written(line)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min"])
def test_named_binary_ops(name):
    kind = "tensor<4x8xf16>"
    assert_prints_as_written(
        f"%y = linalg.{name} ins(%t, %t : {kind}, {kind}) outs(%t : {kind}) -> {kind}"
    )


@pytest.mark.parametrize(
    "name",
    ["exp", "log", "sqrt", "abs", "ceil", "floor", "negf", "rsqrt", "square", "tanh", "erf"],
)
def test_named_unary_ops(name):
    kind = "tensor<4x8xf16>"
    assert_prints_as_written(f"%y = linalg.{name} ins(%t : {kind}) outs(%t : {kind}) -> {kind}")


def test_reshape_slices_and_moves():
    round_trip(
        "%a = tensor.reshape %t(%sh) : (tensor<4x8xf16>, tensor<2xindex>) -> tensor<8x4xf16>\n"
        "%c = linalg.transpose ins(%t : tensor<4x8xf16>) outs(%a : tensor<8x4xf16>) "
        "permutation = [1, 0]\n"
        "%d = linalg.broadcast ins(%l : tensor<4xf16>) outs(%t : tensor<4x8xf16>) dimensions = [1]",
        arguments=ARGUMENTS,
    )


def test_generic_with_index_and_two_results():
    round_trip(
        "%y:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, "
        "affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], "
        'iterator_types = ["parallel", "parallel"]} ins(%t : tensor<4x8xf16>) '
        "outs(%t, %v : tensor<4x8xf16>, tensor<4x8xi32>) {\n"
        "^bb0(%p: f16, %q: f16, %r: i32):\n"
        "%k = linalg.index 1 : index\n%c = arith.index_cast %k : index to i32\n"
        "linalg.yield %p, %c : f16, i32\n} -> (tensor<4x8xf16>, tensor<4x8xi32>)",
        arguments=ARGUMENTS,
    )


def test_loops_and_conditions_with_results():
    text = round_trip(
        "%y:2 = scf.for %k = %n to %n step %n iter_args(%p = %t, %q = %h) "
        "-> (tensor<4x8xf16>, f16) {\n"
        "%z = scf.if %b -> (f16) {\nscf.yield %q : f16\n} else {\nscf.yield %h : f16\n}\n"
        "scf.yield %p, %z : tensor<4x8xf16>, f16\n}",
        arguments=ARGUMENTS,
    )
    assert "%y, %y_1 = scf.for %k = %n to %n step %n iter_args(%p = %t, %q = %h)" in text


def test_generate_with_a_dynamic_extent():
    lines = (
        "%y = tensor.generate %n {\n^bb0(%p: index, %q: index):\n"
        "%z = tensor.extract %t[%p, %q] : tensor<4x8xf16>\ntensor.yield %z : f16\n}"
    )
    text = round_trip(f"{lines} : tensor<?x8xf16>", arguments=ARGUMENTS)
    assert "%y = tensor.generate %n {" in text
    assert_rejected(f"{lines} : tensor<4x8xf16>", "1 extents for 0 dims", arguments=ARGUMENTS)
    assert_rejected(
        f"{lines} : tensor<?xf16>", "must have 1 arguments of type index", arguments=ARGUMENTS
    )
    assert_rejected(
        f"{lines} : tensor<?x8xf32>", "the region must yield one f32", arguments=ARGUMENTS
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y = arith.addf %n, %n : index", "arith.addf"),
        ("%y = arith.addi %h, %h : f16", "arith.addi"),
        ("%y = arith.cmpf olt, %n, %n : index", "compares floats, not index"),
        ("%y = arith.cmpi slt, %h, %h : f16", "compares integers, not f16"),
        ("%y = arith.cmpi less, %n, %n : index", "Expected one of 'eq'"),
        ("%y = arith.select %m, %h, %h : f16", "the condition has type i1"),
        ("%y = arith.extf %s : f32 to f16", "cannot cast f32 to f16"),
        ("%y = arith.truncf %t : tensor<4x8xf16> to tensor<4x8xf32>", "cannot cast"),
        ("%y = arith.extsi %v : tensor<4x8xi32> to tensor<32xi64>", "cannot cast"),
        ("%y = arith.trunci %i : i32 to i64", "cannot cast i32 to i64"),
        ("%y = arith.sitofp %n : index to f32", "cannot cast index to f32"),
        ("%y = arith.index_cast %i : i32 to i64", "cannot cast i32 to i64"),
        ("%y = arith.remf %n, %n : index", "expects two floats"),
        ("%y = tensor.splat %h : tensor<4xf32>", "tensor.splat"),
        ("%y = tensor.expand_shape %l [[0, 1]] : tensor<4xf16> into tensor<2x3xf16>", "expand_sh"),
        ("%y = tensor.expand_shape %r0 [] : tensor<f16> into tensor<2xf16>", "one element"),
        ("%y = linalg.unheard ins(%t : tensor<4x8xf16>)", "unknown op linalg.unheard"),
        (
            "%y = linalg.matmul ins(%t, %t : tensor<4x8xf16>, tensor<4x8xf16>) "
            "outs(%t : tensor<4x8xf16>) -> tensor<4x8xf16>",
            "linalg.matmul",
        ),
        (
            "%y = linalg.reduce { arith.addf } ins(%t : tensor<4x8xf16>) "
            "outs(%l : tensor<4xf16>) dimensions = [0]",
            "Non-reduced input dimension",
        ),
        (
            "%y = linalg.reduce { arith.divf } ins(%t : tensor<4x8xf16>) "
            "outs(%l : tensor<4xf16>) dimensions = [1]",
            "arith.divf is not a supported combiner",
        ),
        (
            "%y = linalg.transpose ins(%t : tensor<4x8xf16>) outs(%t : tensor<4x8xf16>) "
            "permutation = [1, 9]",
            "linalg.transpose",
        ),
        ("%y = scf.while", "scf.while"),
    ],
)
def test_an_invalid_op_is_named_in_the_error(line, message):
    assert_rejected(line, message, arguments=ARGUMENTS)


def test_a_comparison_of_tensors_returns_a_bool_tensor():
    module = ktir.load(function("%y = arith.cmpf olt, %t, %t : tensor<4x8xf16>", ARGUMENTS))
    (comparison,) = (op for op in module.operation.walk() if op.name == "arith.cmpf")
    assert str(comparison.results[0].type) == "tensor<4x8xi1>"

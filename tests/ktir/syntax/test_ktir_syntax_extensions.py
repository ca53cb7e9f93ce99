"""Syntax extensions parse to the same module as the standard form."""

import pytest
from ktir_texts import assert_rejected, assert_same, function, round_trip

from torch_spyre import ktir

ARGUMENTS = "%n: index, %m: index, %t: tensor<4x8xf16>, %l: tensor<4xf16>, %h: f16, %b: i1"


def assert_equivalent(extended, standard):
    left = ktir.load(function(extended, ARGUMENTS))
    right = ktir.load(function(standard, ARGUMENTS))
    assert_same(left, right)
    assert_same(left, ktir.load(str(left)))


@pytest.mark.parametrize("combiner", ["addf", "mulf", "maximumf", "maxnumf", "minnumf"])
def test_a_combiner_may_be_named_before_ins(combiner):
    groups = "ins(%t : tensor<4x8xf16>) outs(%l : tensor<4xf16>) dimensions = [1]"
    assert_equivalent(
        f"%y = linalg.reduce {{ arith.{combiner} }} {groups}",
        f"%y = linalg.reduce {groups} (%in: f16, %out: f16) {{\n"
        f"%s = arith.{combiner} %out, %in : f16\nlinalg.yield %s : f16\n}}",
    )


def test_a_single_result_type_needs_no_parentheses():
    for keyword in ("for %k = %n to %m step %n iter_args(%a = %t)", "if %b"):
        body = "scf.yield %t : tensor<4x8xf16>"
        else_region = f" else {{\n{body}\n}}" if keyword.startswith("if") else ""
        assert_equivalent(
            f"%y = scf.{keyword} -> tensor<4x8xf16> {{\n{body}\n}}{else_region}",
            f"%y = scf.{keyword} -> (tensor<4x8xf16>) {{\n{body}\n}}{else_region}",
        )


def test_a_loop_may_name_its_type_and_yield_nothing():
    assert_equivalent(
        "scf.for %k = %n to %m step %n : index {\nscf.yield\n}",
        "scf.for %k = %n to %m step %n {\n}",
    )


def test_whitespace_is_ignored():
    round_trip(
        "%v = ktdp.construct_memory_view %n , sizes : [ 4 , 8 ] ,\n  strides :[8,1]\n"
        "  { memory_space = #ktdp.memory_space < global > }  // a comment\n  : memref<4x8xf16>"
    )


@pytest.mark.parametrize(("symbol", "name"), [("*", "muli"), ("+", "addi"), ("-", "subi")])
def test_infix_arithmetic_on_indices(symbol, name):
    assert_equivalent(f"%y = %n {symbol} %m : index", f"%y = arith.{name} %n, %m : index")
    assert_equivalent(f"%y = %n {symbol} %m", f"%y = arith.{name} %n, %m : index")


@pytest.mark.parametrize("line", ["%y = %n / %m : index", "%y = %n", "%y = %n * 2 : index"])
def test_other_infix_arithmetic_is_rejected(line):
    assert_rejected(line, "expected", arguments=ARGUMENTS)


@pytest.mark.parametrize(
    ("older", "current"),
    [
        ("arith.maxf %h, %h", "arith.maximumf %h, %h"),
        ("arith.minf %h, %h", "arith.minimumf %h, %h"),
        ("arith.absf %h", "math.absf %h"),
    ],
)
def test_older_names_are_parsed(older, current):
    assert_equivalent(f"%y = {older} : f16", f"%y = {current} : f16")


def test_output_shape_is_optional():
    shapes = "tensor<4xf16> into tensor<2x2xf16>"
    assert_equivalent(
        f"%y = tensor.expand_shape %l [[0, 1]] : {shapes}",
        f"%y = tensor.expand_shape %l [[0, 1]] output_shape [2, 2] : {shapes}",
    )


def test_the_condition_type_of_a_select_is_optional():
    mask = "%f = arith.cmpf olt, %t, %t : tensor<4x8xf16>\n"
    assert_equivalent(
        mask + "%y = arith.select %f, %t, %t : tensor<4x8xf16>",
        mask + "%y = arith.select %f, %t, %t : tensor<4x8xi1>, tensor<4x8xf16>",
    )


ONE = "func.func @one(%n: index) {\nreturn\n}\n"
TWO = "func.func private @two(%n: index) attributes {grid = [2, 3]} {\nfunc.return\n}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"module {{\n{ONE}{TWO}}}\n",
        f"builtin.module {{\n{ONE}{TWO}}}\n",
        ONE + TWO,
        f"module\n{ONE}{TWO}",
        f"module {{\n{ONE}}}\nmodule {{\n{TWO}}}\n",
        f"// first\n#a = affine_set<() : ()>\nmodule {{\n#b = affine_map<() -> ()>\n{ONE}{TWO}}}\n",
    ],
)
def test_functions_need_no_enclosing_module(text):
    module = ktir.load(text)
    assert_same(module, ktir.load(f"module {{\n{ONE}{TWO}}}\n"))
    assert list(module.functions) == ["one", "two"]
    assert module.functions["two"].grid == (2, 3, 1)


def test_aliases_may_span_lines_and_name_any_attribute():
    module = ktir.load(
        "#s = affine_set<(d0)\n : (d0 >= 0,\n d0 <= 7)>\n!tile = !ktdp.access_tile<8xindex>\n"
        "module {\nfunc.func @f(%t: !tile) {\n%x = ktdp.load %t : !tile -> tensor<8xf16>\n"
        "return\n}\n}\n"
    )
    assert str(module.functions["f"].arguments[0].type) == "!ktdp.access_tile<8xindex>"


def test_an_alias_must_be_defined_once_and_before_its_use():
    view = "%v = ktdp.construct_memory_view %n, sizes: [], strides: [] {coordinate_set = #s} : "
    with pytest.raises(ktir.KtirError, match="undefined symbol alias '#s'"):
        ktir.load(function(view + "memref<f16>") + "#s = affine_set<() : ()>\n")
    with pytest.raises(ktir.KtirError, match="alias #s is defined twice"):
        ktir.load("#s = affine_set<() : ()>\n#s = affine_set<() : ()>\nmodule {\n}\n")


def test_the_generic_form_is_parsed():
    assert_equivalent(
        '%y = "arith.addi"(%n, %m) <{overflowFlags = #arith.overflow<none>}> : '
        "(index, index) -> index",
        "%y = arith.addi %n, %m : index",
    )


def test_locations_in_the_text_are_ignored():
    assert_equivalent(
        '%y = arith.addi %n, %m : index loc("file":1:2)', "%y = arith.addi %n, %m : index"
    )

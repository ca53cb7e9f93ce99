"""Messages of KTIR errors: file, line, column, source line and carets; malformed modules."""

import pickle
import warnings

import pytest
from ktir_texts import function

from torch_spyre import ktir
from torch_spyre.errors import SpyreError
from torch_spyre.ktir.affine import box_set
from torch_spyre.source_location import SourceLocation

BAD_LOAD = """module {
  #s = affine_set<(d0) : (d0 >= 0, d0 <= 7)>
  func.func @f(%p: index) {
    %zero = arith.constant 0 : index
    %v = ktdp.construct_memory_view %p, sizes: [8], strides: [1] {} : memref<8xf16>
    %t = ktdp.construct_access_tile %v[%zero] {access_tile_set = #s} : memref<8xf16> -> <8xindex>
    %x = ktdp.load %t : <8xindex> -> tensor<9xf16>
    return
  }
}
"""


def error_of(text):
    with pytest.raises(ktir.KtirError) as caught:
        ktir.load(text)
    return caught.value


def test_a_verification_error_points_at_the_op():
    assert str(error_of(BAD_LOAD)) == (
        "<text>:7:10: ktdp.load: tensor shape [9] differs from tile shape [8]\n"
        "      %x = ktdp.load %t : <8xindex> -> tensor<9xf16>\n"
        "           ^^^^^^^^^"
    )


def test_a_syntax_error_points_at_the_token():
    assert str(
        error_of("module {\n  func.func @f() {\n    %x = arith.constant ?? : f16\n  }\n}\n")
    ) == (
        "<text>:3:25: arith.constant: attribute expected\n"
        "      %x = arith.constant ?? : f16\n"
        "                          ^"
    )


def test_an_unknown_op_is_named():
    error = error_of(function("%x = ktdp.unheard_of %p : index"))
    assert str(error).startswith("<text>:3:6: unknown op ktdp.unheard_of\n")


def test_an_undefined_value_is_reported_at_its_first_use():
    error = error_of(function("%x = arith.addi %p, %missing : index"))
    assert error.problem == "%missing is used but never defined"
    assert (error.location.line, error.location.column, error.location.length) == (3, 21, 8)


def test_a_use_before_the_definition_is_an_error():
    error = error_of(function("%x = arith.addi %y, %p : index\n%y = arith.addi %p, %p : index"))
    assert error.problem == "arith.addi: %y is not defined before this use"
    assert error.location.line == 3


def test_a_value_of_an_inner_region_is_not_visible_outside():
    lines = "scf.for %k = %p to %q step %n {\n%y = arith.addi %p, %k : index\n}\n"
    error = error_of(function(lines + "%z = arith.addi %y, %p : index"))
    assert error.problem == "%y is used but never defined"


def test_a_value_of_one_function_is_not_visible_in_another():
    user = "func.func @one() {\n%x = arith.addi %y, %y : index\nreturn\n}\n"
    definer = "func.func @two() {\n%y = arith.constant 1 : index\nreturn\n}\n"
    assert error_of(user + definer).problem == "%y is used but never defined"


def test_a_second_definition_is_an_error():
    error = error_of(function("%x = arith.constant 1 : index\n%x = arith.constant 2 : index"))
    assert "SSA value %x is already defined" in error.problem


def test_the_error_names_the_file(tmp_path):
    path = tmp_path / "kernel.mlir"
    path.write_text(BAD_LOAD)
    assert str(error_of(path)).startswith(f"{path}:7:10: ktdp.load: ")
    assert str(error_of(str(path))).startswith(f"{path}:7:10: ktdp.load: ")


def test_an_unreadable_file_is_an_error(tmp_path):
    assert "cannot read" in str(error_of(tmp_path / "absent.mlir"))
    assert "cannot read" in str(error_of(tmp_path))
    binary = tmp_path / "binary.mlir"
    binary.write_bytes(b"\xff\xfe\x00module")
    assert "cannot read" in str(error_of(binary))


def test_the_error_is_a_value_error_and_can_be_pickled():
    error = error_of(BAD_LOAD)
    assert isinstance(error, ValueError) and isinstance(error, SpyreError)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) and copy.location == error.location


def test_a_long_line_is_truncated_around_the_location():
    location = SourceLocation("k.mlir", 1, 5000, 3, "x" * 4999 + "bad" + "y" * 5000)
    line, carets = location.excerpt().splitlines()
    assert len(line) < 200
    assert line[carets.index("^") : carets.rindex("^") + 1] == "bad"


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in str(error_of("module {\n\x1b[31m\n}\n"))


def test_an_op_without_a_location_is_printed():
    module = ktir.load(BAD_LOAD.replace("9xf16", "8xf16"))
    (tile,) = (op for op in module.operation.walk() if op.name == "ktdp.construct_access_tile")
    tile.properties["access_tile_set"] = type(tile.access_tile_set)(box_set([8, 8]))
    with pytest.raises(ktir.KtirError, match=r"access_tile_set has 2 dims(.|\n)*%t = ktdp.constr"):
        ktir.Module(module.operation).verify()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n", None),
        ("module {\n", "expected an op, or `}`"),
        ("module {\n}\ngarbage", "unknown op garbage"),
        ("module {\n}\n}\n", "expected an op"),
        ("module {\n%x = arith.constant 1 : index\n}\n", "a module contains functions only"),
        ("func.func @f() {\n%x = arith.constant 1 : index\n}\n", "terminator"),
        ("func.func @f() {\ncf.br ^next\n^next:\nreturn\n}\n", "unknown op cf.br"),
        ("func.func @f() {\nreturn\n^next:\nreturn\n}\n", "branches between blocks"),
        ("func.func @f() {\nreturn\n}\nfunc.func @f() {\nreturn\n}\n", "f"),
        ("func.func @f(%a: index, %a: index) {\nreturn\n}\n", "already defined"),
        ("func.func @f() attributes {grid = [0]} {\nreturn\n}\n", "at least 1"),
        ("func.func @f() attributes {grid = []} {\nreturn\n}\n", "1 to 3 dims, not 0"),
        ("func.func @f() attributes {grid = [1, 1, 1, 1]} {\nreturn\n}\n", "1 to 3 dims, not 4"),
        ("func.func @f() attributes {grid = 4} {\nreturn\n}\n", "a list of integers"),
        ("func.func @f() attributes {grid = [4000, 4000]} {\nreturn\n}\n", "the limit is"),
        ('func.func @f() attributes {grid = ["x"]} {\nreturn\n}\n', "a list of integers"),
    ],
)
def test_malformed_modules(text, problem):
    if problem is None:
        assert ktir.load(text).functions == {}
    else:
        assert problem in str(error_of(text))


def test_deep_nesting_is_an_error_not_a_crash():
    loops = [f"scf.for %k{depth} = %p to %q step %n {{\n" for depth in range(1000)]
    nested = "".join(loops) + "}\n" * len(loops)
    assert "nested too deeply" in str(error_of(function(nested)))
    for expression in ("(" * 5000 + "d0" + ")" * 5000, "-" * 5000 + "d0", "d0" + " + d0" * 5000):
        error = error_of(f"#m = affine_map<(d0) -> ({expression})>\nmodule {{\n}}\n")
        assert "affine" in str(error) or "nested" in str(error)


def test_an_unterminated_string_is_an_error():
    error = error_of('module {\nfunc.func @f() {\n"' + "x" * 5000 + "\n}\n}\n")
    assert "string literal" in error.problem


def test_an_operand_is_not_defined_inside_its_own_op():
    body = "%c = arith.constant 1.0 : f16\nscf.yield %c : f16"
    loop = f"%y = scf.for %k = %p to %q step %n iter_args(%a = %c) -> f16 {{\n{body}\n}}"
    assert "defined inside the op's own region" in str(error_of(function(loop)))


def test_a_value_used_outside_functions_is_an_error():
    assert "%y is used" in str(error_of("module {\n}\n%x = arith.addi %y, %y : index\n"))


def test_a_valid_module_has_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ktir.load(BAD_LOAD.replace("9xf16", "8xf16"))

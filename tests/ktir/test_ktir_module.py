"""The module API: functions, text, round trips of sample kernels, import cost."""

import subprocess
import sys
import warnings

import pytest
from ktir_texts import KERNELS, assert_same

from torch_spyre import ktir

TEXT = """module {
  func.func @first(%x_1: index, %n: i32, %0: f16) attributes {grid = [2, 16]} {
    return
  }
  func.func private @second(index, f16)
  func.func @third() {
    return
  }
}
"""


def test_functions_are_listed_in_source_order():
    functions = ktir.load(TEXT).functions
    assert list(functions) == ["first", "second", "third"]
    assert [function.is_kernel for function in functions.values()] == [True, False, True]


def test_a_grid_has_three_dims_and_one_core_by_default():
    functions = ktir.load(TEXT).functions
    assert functions["first"].grid == (2, 16, 1) and functions["first"].cores == 32
    assert functions["third"].grid == (1, 1, 1) and functions["third"].cores == 1


def test_arguments_have_the_names_of_the_text():
    arguments = ktir.load(TEXT).functions["first"].arguments
    assert [(argument.name, str(argument.type)) for argument in arguments] == [
        ("x_1", "index"),
        ("n", "i32"),
        ("arg2", "f16"),
    ]
    assert [argument.name for argument in ktir.load(TEXT).functions["second"].arguments] == [
        "arg0",
        "arg1",
    ]


def test_names_are_preserved_by_printing():
    module = ktir.load(
        "func.func @f(%a_1: index, %a: index) {\n%a_2 = arith.addi %a_1, %a : index\n"
        "scf.for %i = %a to %a_1 step %a_2 {\n%b = arith.addi %i, %a : index\n}\n"
        "scf.for %i = %a to %a_1 step %a_2 {\n%b = arith.addi %i, %a : index\n}\nreturn\n}\n"
    )
    text = str(module)
    assert "@f(%a_1: index, %a: index)" in text
    assert "%a_2 = arith.addi %a_1, %a" in text
    assert "%b = " in text and "%b_1 = arith.addi %i_1, %a" in text
    assert str(ktir.load(text)) == text


def test_text_and_path_load_the_same_module():
    for path in KERNELS:
        assert str(ktir.load(path)) == str(ktir.load(str(path))) == str(ktir.load(path.read_text()))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_sample_kernels_verify_without_warnings_and_round_trip(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = ktir.load(path)
        module.verify()
    text = str(module)
    reparsed = ktir.load(text)
    assert_same(module, reparsed)
    assert str(reparsed) == text


def test_a_clone_prints_the_same_text():
    module = ktir.load(KERNELS[0])
    assert_same(module, ktir.Module(module.operation.clone()))


def test_importing_ktir_does_not_import_torch():
    code = "import sys, torch_spyre.ktir; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_matmul_kernel_prints_the_expected_text():
    path = next(path for path in KERNELS if path.stem == "matmul")
    assert str(ktir.load(path)) == path.with_suffix(".expected").read_text()

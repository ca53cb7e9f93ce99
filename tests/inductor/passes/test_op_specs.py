"""Tests of the OpSpecs of a program's loops."""

from dataclasses import replace

import pytest
import sympy
import torch
from loop_bundles import C0, C1, C2, R0, bundle, load, loop, matmul, step, tensor, total

from torch_spyre._C import DataFormats
from torch_spyre._inductor.loop_ir import Constant, Coordinate
from torch_spyre._inductor.op_spec import IndirectAccess, sympify
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.passes.op_specs import specs_of
from torch_spyre.errors import UnsupportedError

F16 = torch.float16
ROWS, COLUMNS = 32, 128
SPACE = {C0: ROWS, C1: COLUMNS}
INDEX = COLUMNS * C0 + C1
X, Y, A, B = (tensor(name, ROWS, COLUMNS) for name in "xyab")


def lower(ops, *tensors, results=("a",), **options):
    """Return the validated OpSpecs of the ops."""
    specs = specs_of(bundle(ops, tensors, list(results), **options), ops)
    validate(specs, cores=32)
    return specs


def coordinate_texts(arg):
    return [str(coordinate) for coordinate in arg.device_coordinates]


def test_steps_become_ops_with_intermediates_in_the_scratchpad():
    value = step("add", step("exp", load("x", INDEX)), load("y", INDEX))
    first, second = lower([loop("a", SPACE, value, INDEX)], X, Y, A)
    assert (first.op, second.op) == ("exp", "add")
    assert first.output.allocation == {"lx": 0}
    assert second.args[0].name == first.output.name
    assert [arg.arg_index for arg in second.args] == [-1, 1, 2]
    assert second.splits == {C0: 1, C1: 1}


def test_a_value_used_twice_is_computed_once():
    exp = step("exp", load("x", INDEX))
    specs = lower([loop("a", SPACE, step("mul", exp, step("add", exp, exp)), INDEX)], X, A)
    assert [spec.op for spec in specs] == ["exp", "add", "mul"]


def test_constants_are_named_by_their_operand_position():
    value = step("sub", Constant(2.0, F16), load("x", INDEX))
    (spec,) = lower([loop("a", SPACE, value, INDEX)], X, A)
    assert spec.constants == {"operand0": 2.0}
    assert len(spec.args) == 2


@pytest.mark.parametrize("value", [0.25, float("inf")])
def test_a_loop_of_a_constant_is_an_identity_op(value):
    (spec,) = lower([loop("a", SPACE, Constant(value, F16), INDEX)], A)
    assert (spec.op, spec.constants, len(spec.args)) == ("identity", {"operand0": value}, 1)


def test_a_coordinate_is_an_index_op():
    (spec,) = lower([loop("a", SPACE, Coordinate(3 * C0 + C1, F16), INDEX)], A)
    assert spec.op == "index"
    assert sympify(spec.op_info["expression"]) == 3 * C0 + C1


def test_coordinates_use_the_symbols_of_split_loops():
    """The flat loop over the rows of a matrix is split in two."""
    flat = {C0: 6 * COLUMNS}
    value = step("add", load("x", C0), Coordinate(C0, F16))
    (index, add) = lower([loop("a", flat, value, C0)], tensor("x", 6, COLUMNS), tensor("a", 768))
    (inner, outer) = sorted(index.sizes, key=lambda symbol: index.sizes[symbol], reverse=True)
    assert (index.sizes[inner], index.sizes[outer]) == (COLUMNS, 6)
    assert sympify(index.op_info["expression"]) == inner + COLUMNS * outer
    assert add.sizes == index.sizes


@pytest.mark.parametrize(
    ("index", "name"),
    [(INDEX, "identity"), (COLUMNS * C0, "identity"), (C0 + ROWS * C1, "ReStickifyOpHBM")],
    ids=["identity", "broadcast", "transposed"],
)
def test_a_copy_that_changes_the_stick_is_a_restickify(index, name):
    source = tensor("x", COLUMNS, ROWS) if index == C0 + ROWS * C1 else X
    (spec,) = lower([loop("a", SPACE, load("x", index), INDEX)], source, A)
    assert spec.op == name


def test_a_result_that_is_read_again_is_in_scratchpad_and_memory():
    ops = [
        loop("a", SPACE, step("exp", load("x", INDEX)), INDEX),
        loop("b", SPACE, step("neg", load("a", INDEX)), INDEX),
    ]
    specs = lower(ops, X, A, B, results=("a", "b"))
    assert [spec.op for spec in specs] == ["exp", "identity", "neg"]
    assert [next(iter(spec.output.allocation)) for spec in specs] == ["lx", "hbm", "hbm"]
    assert specs[1].args[0].name == specs[2].args[0].name == specs[0].output.name


def test_the_output_of_a_reduction_does_not_have_the_reduced_symbols():
    value = load("x", COLUMNS * C0 + R0)
    (spec,) = lower([total("a", {C0: ROWS, R0: COLUMNS}, value, C0, (R0,))], X, tensor("a", ROWS))
    assert spec.is_reduction
    assert list(spec.iteration_space) == [C0, R0]
    assert all(R0 not in coordinate.free_symbols for coordinate in spec.output.device_coordinates)


def test_a_matmul_has_rows_columns_and_k_in_order():
    w = tensor("w", COLUMNS, 64)
    (spec,) = lower([matmul("a", ROWS, 64, COLUMNS, "x", "w")], X, w, tensor("a", ROWS, 64))
    assert spec.op == "batchmatmul"
    assert list(spec.sizes.items()) == [(C0, ROWS), (C1, 64), (R0, COLUMNS)]


def test_index_tensors_are_the_first_arguments():
    index = load("i", C0, torch.int32)
    value = load("x", COLUMNS * C2 + C1, indirect=((C2, index),))
    i = tensor("i", 8, dtype=torch.int32)
    tensors = X, i, tensor("a", 8, COLUMNS)
    (spec,) = lower([loop("a", {C0: 8, C1: COLUMNS}, value, INDEX)], *tensors)
    assert [arg.name for arg in spec.args] == ["i", "x", "a"]
    assert spec.args[0].device_dtype == DataFormats.IEEE_INT32
    assert spec.args[1].device_coordinates[1] == IndirectAccess(sympy.Symbol("i"))
    assert [arg.name for arg in spec.index_args] == ["i"]
    assert [arg.name for arg in spec.operands] == ["x"]


def test_different_accesses_to_one_index_tensor_are_rejected():
    first = load("x", COLUMNS * C2 + C1, indirect=((C2, load("i", C0, torch.int32)),))
    second = load("y", COLUMNS * C2 + C1, indirect=((C2, load("i", C0 + 8, torch.int32)),))
    i = tensor("i", 16, dtype=torch.int32)
    op = loop("a", {C0: 8, C1: COLUMNS}, step("add", first, second), INDEX)
    with pytest.raises(UnsupportedError, match="different accesses to one index tensor"):
        lower([op], X, Y, i, tensor("a", 8, COLUMNS))


def test_an_index_that_is_not_a_coordinate_is_rejected():
    value = load("x", 3 * C2 + C1, indirect=((C2, load("i", C0, torch.int32)),))
    i = tensor("i", 8, dtype=torch.int32)
    op = loop("a", {C0: 8, C1: 3}, value, 3 * C0 + C1)
    with pytest.raises(UnsupportedError, match="an index that is not a coordinate"):
        lower([op], X, i, tensor("a", 8, 3))


def test_intermediates_of_several_programs_are_in_the_pool():
    ops = [loop("a", SPACE, step("exp", load("x", INDEX)), INDEX)]
    (spec,) = lower(ops, X, A, results=("a",), arguments=["x"])
    assert spec.output.allocation == {"pool": 0}
    assert (spec.output.arg_index, spec.output.name) == (-1, "a")


def test_partial_writes_are_marked():
    op = loop("p", {C0: 4, C1: COLUMNS}, load("x", INDEX), INDEX, target="a", is_partial=True)
    (spec,) = lower([op], X, A, results=("a",), arguments=["x", "a"])
    assert spec.op_info == {"partial": True}


def test_a_view_is_read_at_its_offset():
    view = replace(tensor("x", 2 * ROWS, COLUMNS), offset=ROWS * COLUMNS)
    (spec,) = lower([loop("a", SPACE, step("neg", load("x", INDEX)), INDEX)], view, A)
    assert coordinate_texts(spec.args[0]) == ["floor(c1/64)", "c0 + 32", "Mod(c1, 64)"]

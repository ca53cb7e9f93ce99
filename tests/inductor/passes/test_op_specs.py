"""From loops of one program to OpSpecs."""

import pytest
import sympy
import torch
from loop_bundles import C0, C1, C2, R0, bundle, load, loop, product, step, tensor, total

from torch_spyre._C import DataFormats
from torch_spyre._inductor.loop_ir import Constant, Coordinate
from torch_spyre._inductor.op_spec import IndirectAccess, sympify
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.passes.op_specs import specs_of
from torch_spyre.errors import UnsupportedError

F16 = torch.float16
ROWS, COLUMNS = 32, 128
SPACE = {C0: ROWS, C1: COLUMNS}
HERE = COLUMNS * C0 + C1
X, Y, A, B = (tensor(name, ROWS, COLUMNS) for name in "xyab")


def specs(ops, *tensors, results=("a",), **more):
    made = specs_of(bundle(ops, tensors, list(results), **more), ops)
    validate(made, cores=32)
    return made


def texts(arg):
    return [str(each) for each in arg.device_coordinates]


def test_steps_become_ops_that_pass_values_on_in_the_scratchpad():
    value = step("add", step("exp", load("x", HERE)), load("y", HERE))
    first, second = specs([loop("a", SPACE, value, HERE)], X, Y, A)
    assert (first.op, second.op) == ("exp", "add")
    assert first.output.allocation == {"lx": 0}
    assert second.args[0].name == first.output.name
    assert [arg.arg_index for arg in second.args] == [-1, 1, 2]
    assert second.splits == {C0: 1, C1: 1}


def test_a_value_used_twice_is_computed_once():
    exp = step("exp", load("x", HERE))
    made = specs([loop("a", SPACE, step("mul", exp, step("add", exp, exp)), HERE)], X, A)
    assert [spec.op for spec in made] == ["exp", "add", "mul"]


def test_numbers_are_constants_by_the_place_of_their_operand():
    value = step("sub", Constant(2.0, F16), load("x", HERE))
    (spec,) = specs([loop("a", SPACE, value, HERE)], X, A)
    assert spec.constants == {"operand0": 2.0}
    assert len(spec.args) == 2


@pytest.mark.parametrize("value", [0.25, float("inf")])
def test_a_constant_alone_is_written_everywhere(value):
    (spec,) = specs([loop("a", SPACE, Constant(value, F16), HERE)], A)
    assert (spec.op, spec.constants, len(spec.args)) == ("identity", {"operand0": value}, 1)


def test_places_are_computed_from_coordinates():
    (spec,) = specs([loop("a", SPACE, Coordinate(3 * C0 + C1, F16), HERE)], A)
    assert spec.op == "index"
    assert sympify(spec.op_info["expression"]) == 3 * C0 + C1


def test_places_are_in_the_symbols_that_loops_were_cut_into():
    """The flat loop over rows of a matrix is cut in two."""
    flat = {C0: 6 * COLUMNS}
    value = step("add", load("x", C0), Coordinate(C0, F16))
    (index, add) = specs([loop("a", flat, value, C0)], tensor("x", 6, COLUMNS), tensor("a", 768))
    (inner, outer) = sorted(index.sizes, key=lambda symbol: index.sizes[symbol], reverse=True)
    assert (index.sizes[inner], index.sizes[outer]) == (COLUMNS, 6)
    assert sympify(index.op_info["expression"]) == inner + COLUMNS * outer
    assert add.sizes == index.sizes


@pytest.mark.parametrize(
    ("at", "name"),
    [(HERE, "identity"), (COLUMNS * C0, "identity"), (C0 + ROWS * C1, "ReStickifyOpHBM")],
    ids=["as it is", "spread", "transposed"],
)
def test_a_copy_is_named_by_what_it_does_to_sticks(at, name):
    source = tensor("x", COLUMNS, ROWS) if at == C0 + ROWS * C1 else X
    (spec,) = specs([loop("a", SPACE, load("x", at), HERE)], source, A)
    assert spec.op == name


def test_a_result_that_is_read_again_is_in_both_memories():
    ops = [
        loop("a", SPACE, step("exp", load("x", HERE)), HERE),
        loop("b", SPACE, step("neg", load("a", HERE)), HERE),
    ]
    made = specs(ops, X, A, B, results=("a", "b"))
    assert [spec.op for spec in made] == ["exp", "identity", "neg"]
    assert [next(iter(spec.output.allocation)) for spec in made] == ["lx", "hbm", "hbm"]
    assert made[1].args[0].name == made[2].args[0].name == made[0].output.name


def test_a_fold_leaves_its_symbols_behind():
    value = load("x", COLUMNS * C0 + R0)
    (spec,) = specs([total("a", {C0: ROWS, R0: COLUMNS}, value, C0, (R0,))], X, tensor("a", ROWS))
    assert spec.is_reduction
    assert list(spec.iteration_space) == [C0, R0]
    assert all(R0 not in each.free_symbols for each in spec.output.device_coordinates)


def test_a_product_has_rows_columns_and_inner_dim_in_order():
    w = tensor("w", COLUMNS, 64)
    (spec,) = specs([product("a", ROWS, 64, COLUMNS, "x", "w")], X, w, tensor("a", ROWS, 64))
    assert spec.op == "batchmatmul"
    assert list(spec.sizes.items()) == [(C0, ROWS), (C1, 64), (R0, COLUMNS)]


def test_index_tensors_come_first_and_are_named_in_coordinates():
    index = load("i", C0, torch.int32)
    value = load("x", COLUMNS * C2 + C1, indirect=((C2, index),))
    i = tensor("i", 8, dtype=torch.int32)
    tensors = X, i, tensor("a", 8, COLUMNS)
    (spec,) = specs([loop("a", {C0: 8, C1: COLUMNS}, value, HERE)], *tensors)
    assert [arg.name for arg in spec.args] == ["i", "x", "a"]
    assert spec.args[0].device_dtype == DataFormats.IEEE_INT32
    assert spec.args[1].device_coordinates[1] == IndirectAccess(sympy.Symbol("i"))
    assert [arg.name for arg in spec.index_args] == ["i"]
    assert [arg.name for arg in spec.operands] == ["x"]


def test_one_index_tensor_is_read_in_one_way():
    first = load("x", COLUMNS * C2 + C1, indirect=((C2, load("i", C0, torch.int32)),))
    second = load("y", COLUMNS * C2 + C1, indirect=((C2, load("i", C0 + 8, torch.int32)),))
    i = tensor("i", 16, dtype=torch.int32)
    op = loop("a", {C0: 8, C1: COLUMNS}, step("add", first, second), HERE)
    with pytest.raises(UnsupportedError, match="different accesses to one index tensor"):
        specs([op], X, Y, i, tensor("a", 8, COLUMNS))


def test_an_index_must_be_a_coordinate():
    value = load("x", 3 * C2 + C1, indirect=((C2, load("i", C0, torch.int32)),))
    i = tensor("i", 8, dtype=torch.int32)
    op = loop("a", {C0: 8, C1: 3}, value, 3 * C0 + C1)
    with pytest.raises(UnsupportedError, match="an index that is no coordinate"):
        specs([op], X, i, tensor("a", 8, 3))


def test_what_is_neither_argument_nor_kept_is_in_the_pool():
    ops = [loop("a", SPACE, step("exp", load("x", HERE)), HERE)]
    (spec,) = specs(ops, X, A, results=("a",), arguments=["x"])
    assert spec.output.allocation == {"pool": 0}
    assert (spec.output.arg_index, spec.output.name) == (-1, "a")


def test_parts_of_a_tensor_say_so():
    op = loop("p", {C0: 4, C1: COLUMNS}, load("x", HERE), HERE, target="a", partial=True)
    (spec,) = specs([op], X, A, results=("a",), arguments=["x", "a"])
    assert spec.op_info == {"partial": True}


def test_a_view_with_an_offset_is_read_from_there():
    from dataclasses import replace

    moved = replace(tensor("x", 2 * ROWS, COLUMNS), offset=ROWS * COLUMNS)
    (spec,) = specs([loop("a", SPACE, step("neg", load("x", HERE)), HERE)], moved, A)
    assert texts(spec.args[0]) == ["floor(c1/64)", "c0 + 32", "Mod(c1, 64)"]

"""Tests of tile plans: padding, units of splitting, and fitting the scratchpad."""

import pytest
import torch  # noqa: F401  (first: loads the libraries that _C needs)
from sympy import Symbol

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec, TensorArg, sympify
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import plan_tiles
from torch_spyre.errors import UnsupportedError

FP16, INT32 = DataFormats.SEN169_FP16, DataFormats.IEEE_INT32
ROWS, COLUMNS = Symbol("c0", integer=True), Symbol("c1", integer=True)
BUDGET = 2**20
MATRIX = "floor(c1/64); c0; Mod(c1, 64)"


def tensor(size, coordinates, arg_index=0, *, output=False, dtype=FP16, name=None):
    expressions = [sympify(coordinate) for coordinate in coordinates.split("; ")]
    allocation = {"lx": 0} if arg_index < 0 else {"hbm": 0}
    return TensorArg(not output, arg_index, dtype, size, expressions, allocation, name=name)


def spec(op, rows, columns, *args, splits=(1, 1), is_reduction=False, **info):
    space = {ROWS: (sympify(str(rows)), splits[0]), COLUMNS: (sympify(str(columns)), splits[1])}
    return OpSpec(op, is_reduction, space, args, info)


def copy(rows, columns, **options):
    sticks = -(-columns // 64)
    source = tensor([sticks, rows, 64], MATRIX, 0)
    return spec("identity", rows, columns, source, as_output(source, 1), **options)


def as_output(source, arg_index):
    return TensorArg(
        False,
        arg_index,
        source.device_dtype,
        source.device_size,
        source.device_coordinates,
        {"hbm": 0},
    )


def test_tiles_are_padded_to_whole_sticks():
    plan = plan_tiles([copy(4, 100)], BUDGET)
    assert plan.padded == {COLUMNS}
    assert plan.tile == {ROWS: 4, COLUMNS: 128}


def test_partial_writes_are_not_padded():
    plan = plan_tiles([copy(4, 100, partial=True)], BUDGET)
    assert not plan.padded and plan.tile[COLUMNS] == 100


def test_sticks_that_end_at_different_elements_are_not_padded():
    wide = tensor([3, 4, 32], MATRIX.replace("64", "32"), 0, dtype=INT32)
    narrow = tensor([2, 4, 64], MATRIX, 1, output=True)
    assert not plan_tiles([spec("convert", 4, 70, wide, narrow)], BUDGET).padded
    assert plan_tiles([spec("convert", 4, 100, wide, narrow)], BUDGET).padded == {COLUMNS}


def test_scratchpad_tensors_do_not_affect_padding():
    wide = tensor([3, 4, 32], MATRIX.replace("64", "32"), 0, dtype=INT32)
    mask = tensor([2, 4, 64], MATRIX, -1, output=True, name="mask")
    plan = plan_tiles([spec("lesserthan", 4, 70, wide, mask, constants={"operand1": 0})], BUDGET)
    assert plan.tile[COLUMNS] == 96


def test_index_tensors_are_not_padded():
    indices = tensor([4, 32], "floor(c1/32); Mod(c1, 32)", 0, dtype=INT32, name="indices")
    table = tensor([1, 4, 64], "0; c0; IndirectAccess(indices)", 1)
    result = tensor([2, 4, 64], MATRIX, 2, output=True)
    assert not plan_tiles([spec("identity", 4, 100, indices, table, result)], BUDGET).padded


@pytest.mark.parametrize(("columns", "units"), [(64, 1), (100, 2), (640, 10)])
def test_the_units_of_splitting_are_whole_sticks(columns, units):
    space = IterationSpace.from_specs([copy(4, columns)])
    assert space.num_units(COLUMNS) == units
    assert space.num_units(ROWS) == 4


def test_lanes_of_a_single_stick_are_not_split():
    source, target = tensor([4, 40, 64], "c0; c1; 0", 0), tensor([1, 4, 64], "0; c0; c1", 1)
    space = IterationSpace.from_specs([spec("identity", 4, 40, source, as_output(target, 1))])
    assert space.num_units(COLUMNS) == 1


def test_splits_within_sticks_are_rejected():
    with pytest.raises(UnsupportedError, match="c1"):
        plan_tiles([copy(4, 192, splits=(1, 2))], BUDGET)


def test_tiles_fit_the_budget():
    plan = plan_tiles([copy(1024, 4096)], budget=1 << 20)
    assert 2 * 2 * plan.tile[ROWS] * plan.tile[COLUMNS] <= 1 << 20
    assert plan.tile[COLUMNS] % 64 == 0 and plan.tile != plan.per_core


def test_no_plan_if_the_smallest_tile_exceeds_the_budget():
    assert plan_tiles([copy(4, 64)], budget=100) is None


def test_ops_of_a_kernel_must_have_equal_sizes_and_splits():
    with pytest.raises(UnsupportedError, match="different sizes of c0: 4 and 5"):
        IterationSpace.from_specs([copy(4, 64), copy(5, 64)])
    with pytest.raises(UnsupportedError, match="different splits of c0: 1 and 2"):
        IterationSpace.from_specs([copy(4, 64), copy(4, 64, splits=(2, 1))])

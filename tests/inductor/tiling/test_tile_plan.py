"""Tiles of a kernel: what is padded, what may be divided, what fits."""

import pytest
import torch  # noqa: F401  (first: our libraries need its)
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


def tensor(size, coordinates, place=0, *, output=False, dtype=FP16, name=None):
    where = [sympify(each) for each in coordinates.split("; ")]
    memory = {"lx": 0} if place < 0 else {"hbm": 0}
    return TensorArg(not output, place, dtype, size, where, memory, name=name)


def spec(op, rows, columns, *args, splits=(1, 1), folds=False, **info):
    space = {ROWS: (sympify(str(rows)), splits[0]), COLUMNS: (sympify(str(columns)), splits[1])}
    return OpSpec(op, folds, space, args, info)


def copy(rows, columns, **more):
    sticks = -(-columns // 64)
    source = tensor([sticks, rows, 64], MATRIX, 0)
    return spec("identity", rows, columns, source, replaced(source, 1), **more)


def replaced(source, place):
    return TensorArg(
        False, place, source.device_dtype, source.device_size, source.device_coordinates, {"hbm": 0}
    )


def test_rows_are_computed_to_the_end_of_their_last_stick():
    plan = plan_tiles([copy(4, 100)], BUDGET)
    assert plan.padded == {COLUMNS}
    assert plan.tile == {ROWS: 4, COLUMNS: 128}


def test_not_where_elements_of_others_share_the_stick():
    plan = plan_tiles([copy(4, 100, partial=True)], BUDGET)
    assert not plan.padded and plan.tile[COLUMNS] == 100


def test_not_where_sticks_end_at_different_elements():
    wide = tensor([3, 4, 32], MATRIX.replace("64", "32"), 0, dtype=INT32)
    narrow = tensor([2, 4, 64], MATRIX, 1, output=True)
    assert not plan_tiles([spec("convert", 4, 70, wide, narrow)], BUDGET).padded
    assert plan_tiles([spec("convert", 4, 100, wide, narrow)], BUDGET).padded == {COLUMNS}


def test_sticks_in_the_scratchpad_do_not_matter():
    wide = tensor([3, 4, 32], MATRIX.replace("64", "32"), 0, dtype=INT32)
    flags = tensor([2, 4, 64], MATRIX, -1, output=True, name="flags")
    plan = plan_tiles([spec("lesserthan", 4, 70, wide, flags, constants={"operand1": 0})], BUDGET)
    assert plan.tile[COLUMNS] == 96


def test_not_what_are_indices():
    indices = tensor([4, 32], "floor(c1/32); Mod(c1, 32)", 0, dtype=INT32, name="indices")
    table = tensor([1, 4, 64], "0; c0; IndirectAccess(indices)", 1)
    result = tensor([2, 4, 64], MATRIX, 2, output=True)
    assert not plan_tiles([spec("identity", 4, 100, indices, table, result)], BUDGET).padded


@pytest.mark.parametrize(("columns", "parts"), [(64, 1), (100, 2), (640, 10)])
def test_cores_share_whole_sticks(columns, parts):
    space = IterationSpace.from_specs([copy(4, columns)])
    assert space.num_units(COLUMNS) == parts
    assert space.num_units(ROWS) == 4


def test_lanes_of_the_only_stick_are_not_shared():
    source, target = tensor([4, 40, 64], "c0; c1; 0", 0), tensor([1, 4, 64], "0; c0; c1", 1)
    space = IterationSpace.from_specs([spec("identity", 4, 40, source, replaced(target, 1))])
    assert space.num_units(COLUMNS) == 1


def test_parts_that_are_no_whole_sticks_are_refused():
    with pytest.raises(UnsupportedError, match="c1"):
        plan_tiles([copy(4, 192, splits=(1, 2))], BUDGET)


def test_tiles_shrink_until_they_fit():
    plan = plan_tiles([copy(1024, 4096)], budget=1 << 20)
    assert 2 * 2 * plan.tile[ROWS] * plan.tile[COLUMNS] <= 1 << 20
    assert plan.tile[COLUMNS] % 64 == 0 and plan.num_tiles > 1


def test_what_cannot_shrink_does_not_fit():
    assert plan_tiles([copy(4, 64)], budget=100) is None


def test_ops_of_a_kernel_agree_on_sizes_and_divisions():
    with pytest.raises(UnsupportedError, match="c0 with sizes 4 and 5"):
        IterationSpace.from_specs([copy(4, 64), copy(5, 64)])
    with pytest.raises(UnsupportedError, match="c0 divided by 1 and 2"):
        IterationSpace.from_specs([copy(4, 64), copy(4, 64, splits=(2, 1))])

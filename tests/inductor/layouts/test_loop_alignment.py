import numpy as np
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_graphs import D, loops, row_major, values
from test_layout_coordinates import readings

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import align, device_coordinates
from torch_spyre._inductor.op_spec import IndirectAccess

p0, p1, z0 = sympy.symbols("p0 p1 z0", integer=True)


def tensor(device_size, stride_map, ranges, index):
    return device_size, device_coordinates(device_size, stride_map, ranges, index)


def pair(symbol, per_stick=64):
    return sympy.floor(symbol / per_stick), sympy.Mod(symbol, per_stick)


def test_a_flattened_operand_cuts_the_loop_it_flattens():
    ranges = {p0: 60, p1: 128}
    index = 128 * p0 + p1
    x = tensor([10, 2, 6, 64], [128, 64, 1280, 1], ranges, index)
    y = tensor([2, 60, 64], [64, 128, 1], ranges, index)
    found = align(ranges, [x, y])
    assert list(found.ranges.items()) == [(p0, 10), (z0, 6), (p1, 128)]
    assert found.segments == {p0: [(p0, 1), (z0, 10)], p1: [(p1, 1)]}
    count, slot = pair(p1)
    assert found.coordinates == [[p0, count, z0, slot], [count, p0 + 10 * z0, slot]]
    assert found.is_plain == [True, True]


def test_cuts_at_stick_boundaries_leave_the_stick_whole():
    ranges = {p0: 768}
    rows, flat = ([2, 6, 64], [64, 128, 1]), ([12, 64], [64, 1])
    found = align(ranges, [tensor(*rows, ranges, p0), tensor(*flat, ranges, p0)])
    count, slot = pair(p0)
    assert found.ranges == {p0: 128, z0: 6}
    assert found.coordinates == [[count, z0, slot], [count + 2 * z0, slot]]


def test_a_cut_inside_the_output_stick_is_not_made():
    ranges = {p0: 350}
    rows, flat = ([2, 5, 64], [64, 70, 1]), ([6, 64], [64, 1])
    found = align(ranges, [tensor(*rows, ranges, p0), tensor(*flat, ranges, p0)])
    assert found.ranges == ranges
    assert found.is_plain == [False, True]
    assert found.coordinates[0] == tensor(*rows, ranges, p0)[1]


def test_a_ragged_flattening_is_undone_where_the_output_has_no_stick():
    ranges = {p0: 350}
    rows, sparse = ([2, 5, 64], [64, 70, 1]), ([1, 350, 64], [-1, 1, -1])
    found = align(ranges, [tensor(*rows, ranges, p0), tensor(*sparse, ranges, p0)])
    count, slot = pair(p0)
    assert found.ranges == {p0: 70, z0: 5}
    assert found.coordinates == [[count, z0, slot], [0, p0 + 70 * z0, 0]]


def test_new_names_are_not_those_of_loops():
    ranges = {z0: 60, p1: 128}
    index = 128 * z0 + p1
    x = tensor([10, 2, 6, 64], [128, 64, 1280, 1], ranges, index)
    found = align(ranges, [x, tensor([2, 60, 64], [64, 128, 1], ranges, index)])
    assert [symbol.name for symbol in found.ranges] == ["z0", "z1", "p1"]


def test_a_slice_across_sticks_stays_one_pair():
    ranges = loops(8, 100)
    d0, d1 = D[:2]
    x = tensor([4, 8, 64], [64, 256, 1], ranges, 256 * d0 + d1 + 10)
    found = align(ranges, [x, tensor([2, 8, 64], [64, 100, 1], ranges, 100 * d0 + d1)])
    assert found.ranges == ranges
    assert found.is_plain == [True, True]
    assert found.coordinates[0][2] == sympy.Mod(d1 + 10, 64)


def test_a_sum_that_carries_over_rows_is_not_plain():
    ranges = loops(500, 10)
    d0, d1 = D[:2]
    x = tensor([4, 512, 64], [64, 256, 1], ranges, 256 * d0 + d1 + 250)
    found = align(ranges, [x, tensor([1, 500, 64], [64, 10, 1], ranges, 10 * d0 + d1)])
    assert found.is_plain == [False, True]


def test_values_of_index_tensors_are_left_alone():
    ranges = {p0: 12}
    rows = IndirectAccess(sympy.Symbol("index", integer=True))
    table = ([4, 64], [sympy.floor(rows / 64), sympy.Mod(rows, 64)])
    found = align(ranges, [table, ([1, 64], [sympy.Integer(0), p0])])
    assert found.ranges == ranges
    assert found.coordinates == [table[1], [0, p0]]
    unnamed = ([4, 64], [*pair(sympy.Symbol("t", integer=True))])
    assert align(ranges, [unnamed, ([1, 64], [sympy.Integer(0), p0])]).coordinates[0] == unnamed[1]


@st.composite
def copies(draw):
    """A reading, and an output in row-major order with some dim along the stick."""
    layout, ranges, index, _ = draw(readings())
    size = list(ranges.values())
    stride = row_major(size)
    order = draw(st.permutations(range(len(size))))
    target = SpyreTensorLayout(size, stride, torch.float16, order)
    written = sum((step * symbol for step, symbol in zip(stride, ranges, strict=True)), start=0)
    return ranges, [
        tensor(layout.device_size, layout.stride_map, ranges, index),
        tensor(target.device_size, target.stride_map, ranges, written),
    ]


@settings(deadline=None, max_examples=200)
@given(copies())
def test_alignment_changes_no_place(copy):
    ranges, accesses = copy
    found = align(ranges, accesses)
    former = {
        symbol: sum(part * stride for part, stride in parts)
        for symbol, parts in found.segments.items()
    }
    assert np.prod([*found.ranges.values()]) == np.prod([*ranges.values()])
    assert found.is_plain[1]
    for (_, before), after in zip(accesses, found.coordinates, strict=True):
        expected = values([each.xreplace(former) for each in before], found.ranges)
        np.testing.assert_array_equal(values(after, found.ranges), expected)


def test_rows_of_half_a_stick_cut_the_output_at_its_sticks():
    ranges = {p0: 256}
    rows, flat = ([1, 8, 64], [64, 32, 1]), ([4, 64], [64, 1])
    scalar = tensor([1, 64], [-1, -1], ranges, sympy.S.Zero)
    found = align(ranges, [tensor(*rows, ranges, p0), tensor(*flat, ranges, p0), scalar])
    z1 = sympy.Symbol("z1", integer=True)
    assert found.ranges == {p0: 32, z0: 2, z1: 4}
    assert found.coordinates[0] == [0, z0 + 2 * z1, p0]
    assert found.coordinates[1] == [z1, p0 + 32 * z0]
    assert found.is_plain[:2] == [True, True]

"""Tests of splitting loops so that the coordinates of all accesses become plain."""

import numpy as np
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_graphs import D, loops, row_major, values
from test_layout_coordinates import accesses

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import align, device_coordinates
from torch_spyre._inductor.layouts.terms import parse
from torch_spyre._inductor.op_spec import IndirectAccess

p0, p1, z0 = sympy.symbols("p0 p1 z0", integer=True)


def tensor(device_size, stride_map, ranges, index):
    return device_size, device_coordinates(device_size, stride_map, ranges, index)


def stick_and_lane(symbol, per_stick=64):
    """Return the coordinates of a symbol along sticks."""
    return sympy.floor(symbol / per_stick), sympy.Mod(symbol, per_stick)


def is_plain(aligned, position, per_stick=64):
    """Return whether the coordinates of a tensor contain no divisions but those into sticks."""
    *outer, lane = (parse(value, aligned.ranges) for value in aligned.coordinates[position])
    bases = [digit.base for _, digit in lane.terms]
    allowed = {(1, 0, None), *((per_stick, 0, base) for base in bases if len(bases) == 1)}
    return all(
        digit.divisor == 1 and digit.modulus in (0, per_stick) for _, digit in lane.terms
    ) and all(
        (digit.divisor, digit.modulus, None if digit.divisor == 1 else digit.base) in allowed
        for coordinate in outer
        for _, digit in coordinate.terms
    )


def test_a_flattened_operand_splits_the_flat_loop():
    ranges = {p0: 60, p1: 128}
    index = 128 * p0 + p1
    x = tensor([10, 2, 6, 64], [128, 64, 1280, 1], ranges, index)
    y = tensor([2, 60, 64], [64, 128, 1], ranges, index)
    aligned = align(ranges, [x, y])
    assert list(aligned.ranges.items()) == [(p0, 10), (z0, 6), (p1, 128)]
    assert aligned.segments == {p0: [(p0, 1), (z0, 10)], p1: [(p1, 1)]}
    stick, lane = stick_and_lane(p1)
    assert aligned.coordinates == [[p0, stick, z0, lane], [stick, p0 + 10 * z0, lane]]
    assert is_plain(aligned, 0) and is_plain(aligned, 1)


def test_splits_at_stick_boundaries_preserve_the_stick():
    ranges = {p0: 768}
    rows, flat = ([2, 6, 64], [64, 128, 1]), ([12, 64], [64, 1])
    aligned = align(ranges, [tensor(*rows, ranges, p0), tensor(*flat, ranges, p0)])
    stick, lane = stick_and_lane(p0)
    assert aligned.ranges == {p0: 128, z0: 6}
    assert aligned.coordinates == [[stick, z0, lane], [stick + 2 * z0, lane]]


def test_loops_are_not_split_within_the_output_stick():
    ranges = {p0: 350}
    rows, flat = ([2, 5, 64], [64, 70, 1]), ([6, 64], [64, 1])
    aligned = align(ranges, [tensor(*rows, ranges, p0), tensor(*flat, ranges, p0)])
    assert aligned.ranges == ranges
    assert not is_plain(aligned, 0) and is_plain(aligned, 1)
    assert aligned.coordinates[0] == tensor(*rows, ranges, p0)[1]


def test_a_ragged_flat_loop_is_split_if_the_output_has_no_stick():
    ranges = {p0: 350}
    rows, sparse = ([2, 5, 64], [64, 70, 1]), ([1, 350, 64], [-1, 1, -1])
    aligned = align(ranges, [tensor(*rows, ranges, p0), tensor(*sparse, ranges, p0)])
    stick, lane = stick_and_lane(p0)
    assert aligned.ranges == {p0: 70, z0: 5}
    assert aligned.coordinates == [[stick, z0, lane], [0, p0 + 70 * z0, 0]]


def test_new_symbols_do_not_clash_with_those_of_loops():
    ranges = {z0: 60, p1: 128}
    index = 128 * z0 + p1
    x = tensor([10, 2, 6, 64], [128, 64, 1280, 1], ranges, index)
    aligned = align(ranges, [x, tensor([2, 60, 64], [64, 128, 1], ranges, index)])
    assert [symbol.name for symbol in aligned.ranges] == ["z0", "z1", "p1"]


def test_a_slice_across_sticks_is_plain():
    ranges = loops(8, 100)
    d0, d1 = D[:2]
    x = tensor([4, 8, 64], [64, 256, 1], ranges, 256 * d0 + d1 + 10)
    aligned = align(ranges, [x, tensor([2, 8, 64], [64, 100, 1], ranges, 100 * d0 + d1)])
    assert aligned.ranges == ranges
    assert is_plain(aligned, 0) and is_plain(aligned, 1)
    assert aligned.coordinates[0][2] == sympy.Mod(d1 + 10, 64)


def test_an_offset_that_carries_over_rows_is_not_plain():
    ranges = loops(500, 10)
    d0, d1 = D[:2]
    x = tensor([4, 512, 64], [64, 256, 1], ranges, 256 * d0 + d1 + 250)
    aligned = align(ranges, [x, tensor([1, 500, 64], [64, 10, 1], ranges, 10 * d0 + d1)])
    assert not is_plain(aligned, 0) and is_plain(aligned, 1)


def test_indirect_coordinates_are_not_changed():
    ranges = {p0: 12}
    rows = IndirectAccess(sympy.Symbol("index", integer=True))
    table = ([4, 64], [sympy.floor(rows / 64), sympy.Mod(rows, 64)])
    aligned = align(ranges, [table, ([1, 64], [sympy.Integer(0), p0])])
    assert aligned.ranges == ranges
    assert aligned.coordinates == [table[1], [0, p0]]
    unnamed = ([4, 64], [*stick_and_lane(sympy.Symbol("t", integer=True))])
    assert align(ranges, [unnamed, ([1, 64], [sympy.Integer(0), p0])]).coordinates[0] == unnamed[1]


@st.composite
def copies(draw):
    """Draw an access, and a row-major output with some dim along the stick."""
    layout, ranges, index, _ = draw(accesses())
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
def test_alignment_does_not_change_the_accessed_elements(copy):
    ranges, tensors = copy
    aligned = align(ranges, tensors)
    original = {
        symbol: sum(new_symbol * stride for new_symbol, stride in segments)
        for symbol, segments in aligned.segments.items()
    }
    assert np.prod([*aligned.ranges.values()]) == np.prod([*ranges.values()])
    assert is_plain(aligned, 1)
    for (_, before), after in zip(tensors, aligned.coordinates, strict=True):
        expected = values([coordinate.xreplace(original) for coordinate in before], aligned.ranges)
        np.testing.assert_array_equal(values(after, aligned.ranges), expected)


def test_rows_of_half_a_stick_split_the_output_at_its_sticks():
    ranges = {p0: 256}
    rows, flat = ([1, 8, 64], [64, 32, 1]), ([4, 64], [64, 1])
    scalar = tensor([1, 64], [-1, -1], ranges, sympy.S.Zero)
    aligned = align(ranges, [tensor(*rows, ranges, p0), tensor(*flat, ranges, p0), scalar])
    z1 = sympy.Symbol("z1", integer=True)
    assert aligned.ranges == {p0: 32, z0: 2, z1: 4}
    assert aligned.coordinates[0] == [0, z0 + 2 * z1, p0]
    assert aligned.coordinates[1] == [z1, p0 + 32 * z0]
    assert is_plain(aligned, 0) and is_plain(aligned, 1)

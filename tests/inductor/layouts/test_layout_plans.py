"""Property tests: after the copies of a plan, the tensors of each op have matching sticks."""

from itertools import pairwise

import numpy as np
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_graphs import D, row_major, values
from test_layout_coordinates import draw_view, layouts

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import (
    Access,
    Buffer,
    LayoutOp,
    device_coordinates,
    plan_layouts,
)
from torch_spyre._inductor.layouts.coordinates import layout_coordinates
from torch_spyre._inductor.layouts.layout_search import BEAM_WIDTH
from torch_spyre._inductor.layouts.sticks import StickKind, classify, varies_within_sticks
from torch_spyre._inductor.layouts.terms import parse
from torch_spyre.testing import layouts as golden


@st.composite
def graphs(draw):
    """Draw a view of an input, combined twice with a broadcast row-major input."""
    size, stride, layout = draw(layouts())
    dtype = torch.float16
    layout = SpyreTensorLayout(size, stride, dtype, draw(st.permutations(range(len(size)))))
    tensor = torch.empty_strided(size, stride, device="meta")
    for _ in range(draw(st.integers(0, 3))):
        tensor = draw_view(draw, tensor)
    shape = tuple(tensor.shape)
    ranges = dict(zip(D, shape, strict=False))
    source = Buffer("source", tuple(size), tuple(stride), dtype, layout)
    index = sum(
        (step * symbol for step, symbol in zip(tensor.stride(), ranges, strict=True)),
        sympy.Integer(tensor.storage_offset()),
    )
    broadcast_size = [n if draw(st.booleans()) else 1 for n in shape]
    order = draw(st.permutations(range(len(shape))))
    other = Buffer(
        "other",
        tuple(broadcast_size),
        row_major(broadcast_size),
        dtype,
        SpyreTensorLayout(broadcast_size, row_major(broadcast_size), dtype, order),
    )
    steps = zip(other.stride, broadcast_size, ranges, strict=True)
    broadcast = sum((step * symbol for step, n, symbol in steps if n > 1), sympy.Integer(0))
    flat = sum(
        (step * symbol for step, symbol in zip(row_major(shape), ranges, strict=True)),
        sympy.Integer(0),
    )
    first, second = (Buffer(name, shape, row_major(shape), dtype) for name in ("first", "second"))
    kind = draw(st.sampled_from(["pointwise", "clone"]))
    ops = [
        LayoutOp("one", kind, ranges, [Access(source, index)], Access(first, flat)),
        LayoutOp(
            "two",
            "pointwise",
            ranges,
            [Access(first, flat), Access(other, broadcast), Access(source, index)],
            Access(second, flat),
        ),
    ]
    return [source, other], ops


def read_access(op, position, plan):
    """Return the layout and index of a read after the copies of the plan."""
    for copy in plan.copies:
        if (copy.op_name, copy.read_position) == (op.name, position):
            return copy.target_layout, copy.index
    access = op.reads[position]
    return plan.layouts[access.buffer.name], access.index


def coordinates_at(layout, index, ranges):
    """Return the flattened device coordinates at every point of the loops."""
    coordinates = values(
        device_coordinates(layout.device_size, layout.stride_map, ranges, index), ranges
    )
    for coordinate, extent in zip(coordinates, layout.device_size, strict=True):
        assert coordinate.min() >= 0 and coordinate.max() < extent
    return [coordinate.reshape(-1) for coordinate in coordinates]


def has_matching_sticks(written, read):
    """Return whether every written stick reads the same lanes of one stick, or only lane 0."""
    order = np.lexsort((*written[:-1],)) if len(written) > 1 else np.arange(len(written[-1]))
    outer = np.stack([coordinate[order] for coordinate in written[:-1]])
    is_new_stick = np.any(np.diff(outer, axis=1) != 0, axis=0)
    starts = [0, *(np.flatnonzero(is_new_stick) + 1), len(order)]
    for start, end in pairwise(starts):
        points = order[start:end]
        if any(np.ptp(coordinate[points]) for coordinate in read[:-1]):
            return False
        same = np.array_equal(read[-1][points], written[-1][points])
        if not (same or not read[-1][points].any()):
            return False
    return True


@settings(deadline=None, max_examples=100)
@given(graphs(), st.sampled_from([1, 2, BEAM_WIDTH]))
def test_sticks_match_in_every_op(graph, beam_width):
    inputs, ops = graph
    plan = plan_layouts(inputs, ops, beam_width=beam_width)
    for op in ops:
        if op.kind == "clone":
            assert all(copy.op_name != op.name for copy in plan.copies)
            continue
        written = coordinates_at(plan.layouts[op.write.buffer.name], op.write.index, op.ranges)
        for position in range(len(op.reads)):
            read = coordinates_at(*read_access(op, position, plan), op.ranges)
            assert has_matching_sticks(written, read), (op.name, position, plan)


@st.composite
def reductions(draw):
    """Draw a reduction of some loops of a view; the reduced loops come last."""
    (source, _), ops = draw(graphs())
    ranges, index = ops[0].ranges, ops[0].reads[0].index
    preserved = [symbol for symbol in ranges if draw(st.booleans())]
    ordered = [*preserved, *(symbol for symbol in ranges if symbol not in preserved)]
    size = tuple(ranges[symbol] for symbol in preserved)
    out = Buffer("out", size, row_major(size), torch.float16)
    written = sum((n * s for n, s in zip(out.stride, preserved, strict=True)), sympy.Integer(0))
    loops = {symbol: ranges[symbol] for symbol in ordered}
    return source, LayoutOp(
        "reduce", "reduction", loops, [Access(source, index)], Access(out, written)
    )


def stick(layout, index, ranges):
    """Return the coordinates of an access, and the kind of its stick."""
    coordinates = layout_coordinates(layout, parse(index, ranges))
    return coordinates, classify(coordinates[-1], layout.device_size[-1])


def are_compatible(accesses):
    """Return whether one op can have these accesses: (device coordinates, elements per stick)."""
    sticks = [classify(coordinates[-1], per_stick) for coordinates, per_stick in accesses]
    if any(stick.kind in (StickKind.OFFSET, StickKind.UNSUPPORTED) for stick in sticks):
        return False
    variables = {stick.variable for stick in sticks} - {None}
    if len(variables) > 1:
        return False
    max_per_stick = max(per_stick for _, per_stick in accesses)
    return not any(
        varies_within_sticks(
            coordinates[:-1], variable, per_stick if stick.variable else max_per_stick
        )
        for variable in variables
        for (coordinates, per_stick), stick in zip(accesses, sticks, strict=True)
    )


@settings(deadline=None, max_examples=200)
@given(reductions())
def test_the_input_stick_of_a_reduction_is_that_of_the_result_or_reduced(graph):
    source, op = graph
    plan = plan_layouts([source], [op])
    written, result = stick(plan.layouts["out"], op.write.index, op.ranges)
    read, read_stick = stick(*read_access(op, 0, plan), op.ranges)
    assert are_compatible([(written, 64), (read, 64)])
    if result.variable is not None:
        assert read_stick.variable == result.variable
    else:
        assert read_stick.variable in (None, *op.reduced)


@st.composite
def matmuls(draw):
    """Draw a matmul of slices of larger buffers, in any memory order and layout."""
    sizes = dict(
        zip(D, draw(st.tuples(*[st.sampled_from([1, 2, 40, 64, 67, 128])] * 4)), strict=False)
    )
    batch, m, n, k = D[:4]
    accesses = []
    for name, dims in (("left", (batch, m, k)), ("right", (batch, k, n))):
        dims = draw(st.permutations(dims))
        start, extra = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        size = tuple(sizes[symbol] + start + extra for symbol in dims)
        order = draw(st.permutations(range(3)))
        layout = SpyreTensorLayout(size, row_major(size), torch.float16, order)
        buffer = Buffer(name, size, row_major(size), torch.float16, layout)
        index = sum(step * (s + start) for step, s in zip(buffer.stride, dims, strict=True))
        accesses.append(Access(buffer, sympy.expand(index)))
    size = (sizes[batch], sizes[m], sizes[n])
    out = Buffer("out", size, row_major(size), torch.float16)
    written = sum(step * s for step, s in zip(out.stride, (batch, m, n), strict=True))
    return LayoutOp("mm", "matmul", sizes, accesses, Access(out, written))


@settings(deadline=None, max_examples=200)
@given(matmuls())
def test_operands_of_matmuls_have_the_sticks_of_the_matrix_unit(op):
    plan = plan_layouts([read.buffer for read in op.reads], [op])
    stick_variables = {
        symbol: symbol.name if size > 1 else None for symbol, size in op.ranges.items()
    }
    _, _, n, k = D[:4]
    for position, symbol in ((0, k), (1, n)):
        coordinates, read_stick = stick(*read_access(op, position, plan), op.ranges)
        assert (read_stick.kind, read_stick.variable) == (
            StickKind.OFFSET_FREE if stick_variables[symbol] else StickKind.NONE,
            stick_variables[symbol],
        )
        assert are_compatible([(coordinates, 64)])
    _, output_stick = stick(plan.layouts["out"], op.write.index, op.ranges)
    assert output_stick.variable == stick_variables[n]


@settings(deadline=None, max_examples=100)
@given(graphs())
def test_copies_store_every_element_at_its_own_offset(graph):
    inputs, ops = graph
    plan = plan_layouts(inputs, ops)
    for copy in plan.copies:
        layout = copy.target_layout
        offsets = golden.host_offsets(copy.size, copy.stride)
        device_offsets = golden.device_offset(offsets, layout.device_size, layout.stride_map)
        assert len(np.unique(device_offsets)) == device_offsets.size

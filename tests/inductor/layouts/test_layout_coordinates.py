"""Tests of device and host coordinates of accesses."""

from itertools import pairwise
from math import prod

import numpy as np
import pytest
import run_scope
import sympy
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layout_graphs import D, row_major, values
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts import device_coordinates, host_coordinates
from torch_spyre._inductor.layouts.terms import modulo
from torch_spyre.testing import layouts as golden

d0, d1, d2 = D[:3]
t = sympy.Symbol("t", integer=True)
ROWS = ([4, 512, 64], [64, 256, 1])
RAGGED = ([2, 5, 64], [64, 70, 1])

# fmt: off
ACCESSES = {
    "row by row": (*ROWS, (512, 256), 256 * d0 + d1, "floor(d1/64), d0, Mod(d1, 64)"),
    "transposed": (*ROWS, (256, 512), d0 + 256 * d1, "floor(d0/64), d1, Mod(d0, 64)"),
    "from the second stick": (
        *ROWS, (512, 192), 256 * d0 + d1 + 64, "floor(d1/64) + 1, d0, Mod(d1, 64)"),
    "within one stick": (*ROWS, (512, 40), 256 * d0 + d1 + 10, "0, d0, d1 + 10"),
    "across a stick boundary": (
        *ROWS, (512, 200), 256 * d0 + d1 + 10, "floor((d1 + 10)/64), d0, Mod(d1 + 10, 64)"),
    "columns split in sticks": (
        *ROWS, (512, 2, 128), 256 * d0 + 128 * d1 + d2, "2*d1 + floor(d2/64), d0, Mod(d2, 64)"),
    "columns split below sticks": (
        *ROWS, (512, 8, 32), 256 * d0 + 32 * d1 + d2, "floor(d1/2), d0, d2 + 32*Mod(d1, 2)"),
    "every other column": (
        *ROWS, (512, 128), 256 * d0 + 2 * d1, "floor(d1/32), d0, 2*Mod(d1, 32)"),
    "every third column": (
        *ROWS, (512, 85), 256 * d0 + 3 * d1, "floor(3*d1/64), d0, Mod(3*d1, 64)"),
    "every other row": (*ROWS, (256, 256), 512 * d0 + d1, "floor(d1/64), 2*d0, Mod(d1, 64)"),
    "flat": (*ROWS, (131072,), d0, "Mod(floor(d0/64), 4), floor(d0/256), Mod(d0, 64)"),
    "backwards": (
        *ROWS, (131072,), 131071 - d0,
        "3 - Mod(floor(d0/64), 4), 511 - floor(d0/256), 63 - Mod(d0, 64)"),
    "diagonal": (*ROWS, (256,), 257 * d0, "floor(d0/64), d0, Mod(d0, 64)"),
    "flat over ragged sticks": (
        *RAGGED, (350,), d0,
        "floor(Mod(d0, 70)/64), floor(d0/70), Mod(Mod(d0, 70), 64)"),
    "less than a stick": ([1, 512, 64], [64, 40, 1], (512, 40), 40 * d0 + d1, "0, d0, d1"),
    "one element per stick": ([1, 128, 64], [-1, 1, -1], (128, 9), d0, "0, d0, 0"),
    "merged rows": (
        [256, 64, 2, 64], [4096, 64, 1048576, 1], (512, 4096), 4096 * d0 + d1,
        "Mod(d0, 256), floor(d1/64), floor(d0/256), Mod(d1, 64)"),
    "a whole stick in": ([4, 8, 64], [64, 256, 1], (8, 64), 256 * d0 + d1 + 64, "1, d0, d1"),
    "rows from an index tensor": (
        [4, 100, 64], [64, 256, 1], (12, 256), 256 * t + d1, "floor(d1/64), t, Mod(d1, 64)"),
    "rows of many matrices from an index tensor": (
        [100, 4, 3, 64], [256, 64, 25600, 1], (3, 256), 25600 * d0 + 256 * t + d1,
        "t, floor(d1/64), d0, Mod(d1, 64)"),
    "columns from an index tensor": (
        *ROWS, (512,), 256 * d0 + t, "floor(t/64), d0, Mod(t, 64)"),
    "pieces that belong together": (
        *ROWS, (131072,), 256 * FloorDiv(d0, 256) + ModularIndexing(d0, 1, 256),
        "Mod(floor(d0/64), 4), floor(d0/256), Mod(d0, 64)"),
    "a loop of one": (*ROWS, (1, 256), 256 * d0 + d1, "floor(d1/64), 0, Mod(d1, 64)"),
}
# fmt: on


@pytest.mark.parametrize("name", ACCESSES)
def test_device_coordinates_of_accesses(name):
    device_size, stride_map, sizes, index, expected = ACCESSES[name]
    ranges = dict(zip(D, sizes, strict=False))
    actual = device_coordinates(device_size, stride_map, ranges, index)
    assert actual == list(
        sympy.sympify(f"({expected},)", locals={"t": t, "d0": d0, "d1": d1, "d2": d2})
    )


def test_host_coordinates_are_derived_from_strides():
    actual = host_coordinates(
        [2, 256, 4096], [1048576, 4096, 1], {d0: 512, d1: 4096}, 4096 * d0 + d1
    )
    assert actual == [sympy.floor(d0 / 256), sympy.Mod(d0, 256), d1]


def test_host_coordinates_of_indirect_accesses_are_the_indices():
    assert host_coordinates([3, 12, 64], [768, 64, 1], {d0: 3}, 768 * d0 + t) == [d0, 0, t]
    assert host_coordinates([3, 12, 64], [768, 64, 1], {d0: 3}, 768 * d0 + 64 * t) == [d0, t, 0]


def test_an_index_between_elements_is_rejected():
    with pytest.raises(ValueError, match="is not the offset of an element"):
        device_coordinates([4], [2], {d0: 4}, 2 * d0 + 1)


def test_symbols_with_other_assumptions_are_matched_by_name():
    """Inductor's symbols are non-negative; those of specs are only integers."""
    inductor_symbol = sympy.Symbol("d0", integer=True, nonnegative=True)
    assert device_coordinates([2, 64], [64, 1], {inductor_symbol: 128}, inductor_symbol) == [
        sympy.floor(d0 / 64),
        sympy.Mod(d0, 64),
    ]


# --- Against the golden model ---------------------------------------------------------------------

EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 8, 31, 32, 33, 64, 65, 70, 96, 128, 130])


@st.composite
def layouts(draw):
    size = draw(st.lists(EXTENTS, min_size=1, max_size=4))
    assume(prod(size) <= 20_000)
    memory_order = draw(st.permutations(range(len(size))))
    strides = dict(zip(memory_order, row_major([size[dim] for dim in memory_order]), strict=True))
    stride = [strides[dim] for dim in range(len(size))]
    order = draw(st.permutations(range(len(size))))
    sparse = [-1] if draw(st.integers(0, 4)) == 0 else []
    dtype = draw(st.sampled_from([torch.float16, torch.float32, torch.int8]))
    return size, stride, SpyreTensorLayout(size, stride, dtype, [*order, *sparse])


def draw_view(draw, tensor):
    """Return a random view of the tensor."""
    dim = draw(st.integers(0, tensor.dim() - 1))
    length = tensor.size(dim)
    kind = draw(st.sampled_from(["slice", "permute", "expand", "split", "select", "unfold"]))
    if kind == "slice":
        start = draw(st.integers(0, length - 1))
        stop = draw(st.integers(start + 1, length))
        return tensor[(slice(None),) * dim + (slice(start, stop, draw(st.integers(1, 3))),)]
    if kind == "permute":
        return tensor.permute(draw(st.permutations(range(tensor.dim()))))
    if kind == "expand":
        return tensor.unsqueeze(dim).expand(
            *tensor.shape[:dim], draw(st.integers(1, 3)), *tensor.shape[dim:]
        )
    if kind == "split":
        factor = draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))
        return tensor.unflatten(dim, (length // factor, factor))
    if kind == "unfold":
        window = draw(st.integers(1, length))
        return tensor.unfold(dim, window, draw(st.integers(1, 3)))
    if tensor.dim() == 1:
        return tensor
    return tensor.select(dim, draw(st.integers(0, length - 1)))


@st.composite
def accesses(draw):
    """Draw a layout, loops, an index, and the host offset at each point of the loops."""
    size, stride, layout = draw(layouts())
    tensor = torch.empty_strided(size, stride, device="meta")
    for _ in range(draw(st.integers(0, 3))):
        tensor = draw_view(draw, tensor)
    assume(tensor.numel() <= 20_000 and tensor.dim() <= 6)
    offsets = golden.host_offsets(tensor.shape, tensor.stride(), tensor.storage_offset())
    # Adjacent dims become one loop, as in a reshape that is not a view.
    ends = sorted({0, tensor.dim(), *draw(st.sets(st.integers(0, tensor.dim())))})
    ranges, index = {}, sympy.Integer(tensor.storage_offset())
    for symbol, (first, last) in zip(D, pairwise(ends), strict=False):
        ranges[symbol] = prod(tensor.shape[first:last])
        for dim in range(first, last):
            inner = prod(tensor.shape[dim + 1 : last])
            digit = (
                ModularIndexing(symbol, inner, tensor.size(dim)) if inner < ranges[symbol] else 0
            )
            index += tensor.stride(dim) * digit
    return layout, ranges, index, offsets.reshape(tuple(ranges.values()))


@settings(deadline=None, max_examples=80 if run_scope.is_quick else 1000)
@given(accesses())
def test_coordinates_of_random_views_match_the_golden_model(access):
    layout, ranges, index, offsets = access
    actual = device_coordinates(layout.device_size, layout.stride_map, ranges, index)
    coordinates = values(actual, ranges)
    for coordinate, extent in zip(coordinates, layout.device_size, strict=True):
        assert coordinate.min() >= 0 and coordinate.max() < extent
    strides = golden.contiguous_strides(layout.device_size)
    actual_offsets = sum(c * step for c, step in zip(coordinates, strides, strict=True))
    expected = golden.device_offset(offsets, layout.device_size, layout.stride_map)
    np.testing.assert_array_equal(actual_offsets, expected)


def _nested_index(data, depth):
    """Draw a sum with nested quotients and remainders of d0 and d1."""
    factor = data.draw(st.integers(1, 7))
    if depth == 0:
        return factor * data.draw(st.sampled_from([d0, d1])) + data.draw(st.integers(0, 5))
    inner, divisor = _nested_index(data, depth - 1), data.draw(st.integers(2, 12))
    form = data.draw(st.sampled_from(["sum", "quotient", "remainder"]))
    if form == "sum":
        return inner + _nested_index(data, depth - 1)
    return factor * (sympy.floor(inner / divisor) if form == "quotient" else modulo(inner, divisor))


@settings(max_examples=80 if run_scope.is_quick else 1000, deadline=None)
@given(st.data())
def test_remainders_of_multiples_of_remainders(data):
    index, modulus = _nested_index(data, 3), data.draw(st.integers(2, 16))
    remainder = modulo(index, modulus)
    for first, second in ((0, 0), (1, 5), (7, 3), (13, 8), (22, 17)):
        point = {d0: sympy.Integer(first), d1: sympy.Integer(second)}
        assert remainder.xreplace(point) == int(index.xreplace(point)) % modulus

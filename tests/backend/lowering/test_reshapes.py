"""Tests of reshapes: views if strides can express the new shape, copies otherwise."""

import math

import pytest
import torch
from compiling import compiled
from hypothesis import given
from hypothesis import strategies as st
from program_interpreter import Interpreter

from torch_spyre.backend.lowering.values import (
    Buffer,
    Extent,
    TensorView,
    as_view,
    dynamic_reshape,
)
from torch_spyre.backend.program.instructions import Copy, ElementType

SIZES = (4, 6, 8)


def tensor_type(sizes):
    return f"tensor<{'x'.join(map(str, sizes))}xi32>"


def view(sizes, strides):
    extents = tuple(Extent(0, size, True) for size in sizes)
    return TensorView(Buffer(1, "b"), ElementType.I32, extents, tuple(strides))


def under(sizes, strides, shape):
    reshaped = as_view(view(sizes, strides), tuple(Extent(0, size, True) for size in shape))
    return reshaped and reshaped.strides


@st.composite
def strided_and_wanted(draw):
    """Draw a sliced, transposed and broadcast tensor, and a shape with the same element count."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    base = torch.arange(4 * 7**4).reshape(4 * 7, 7, 7, 7)
    tensor = base[tuple(slice(0, size) for size in sizes)]
    tensor = tensor[(slice(None),) * len(sizes) + (0,) * (4 - len(sizes))]
    if draw(st.booleans()):
        tensor = torch.arange(tensor.numel()).reshape(sizes)
    tensor = tensor.permute(draw(st.permutations(range(len(sizes)))))
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(draw(st.sampled_from([1, 2, 3])), *tensor.shape)
    factors = [f for f in (2, 2, 2, 2, 3, 3, 3, 3) if tensor.numel() % f == 0]
    shape, remaining = [], tensor.numel()
    for factor in draw(st.permutations(factors)):
        if remaining % factor == 0 and draw(st.booleans()):
            shape.append(factor)
            remaining //= factor
    shape.insert(draw(st.integers(0, len(shape))), remaining)
    return tensor, shape


@given(strided_and_wanted())
def test_view_exists_if_pytorch_has_one(case):
    tensor, shape = case
    strides = under(tensor.shape, tensor.stride(), shape)
    try:
        expected = tensor.view(shape)
    except RuntimeError:
        assert strides is None
        return
    assert strides is not None
    storage = torch.arange(4 * 7**4)
    actual = torch.as_strided(storage, shape, strides)
    assert torch.equal(actual, torch.as_strided(storage, shape, expected.stride()))


def test_empty_tensors_can_be_viewed_with_any_shape():
    assert under([3, 0, 2], [1, 7, 100], [0, 5]) is not None


SLICE = (
    "%s = tensor.extract_slice %x[1, 0, 2] [2, 6, 4] [1, 1, 1] "
    f": {tensor_type(SIZES)} to {tensor_type([2, 6, 4])}"
)
TRANSPOSE = (
    f"%e = tensor.empty() : {tensor_type([8, 4, 6])}\n"
    f"%s = linalg.transpose ins(%x : {tensor_type(SIZES)}) outs(%e : {tensor_type([8, 4, 6])}) "
    "permutation = [2, 0, 1]"
)
DROP = (
    "%s = tensor.extract_slice %x[2, 1, 0] [1, 5, 8] [1, 1, 1] "
    f": {tensor_type(SIZES)} to {tensor_type([5, 8])}"
)


def sliced(x):
    return x[1:3, :, 2:6]


def transposed(x):
    return x.permute(2, 0, 1)


def dropped(x):
    return x[2, 1:]


def joined(name, before, after, groups):
    op, shape = "collapse_shape", ""
    if len(after) > len(before):
        op, shape = "expand_shape", f" output_shape {[*after]}"
    types = f"{tensor_type(before)} into {tensor_type(after)}"
    return f"%{name} = tensor.{op} %s {groups}{shape} : {types}"


def program(change, reshape, sizes):
    """Loads, changes, reshapes, adds 1, stores."""
    boxes = [
        "affine_set<({}) : ({})>".format(
            ", ".join(f"d{dim}" for dim in range(len(shape))),
            ", ".join(f"d{dim} >= 0, -d{dim} + {size - 1} >= 0" for dim, size in enumerate(shape)),
        )
        for shape in (SIZES, sizes)
    ]
    memrefs = [f"memref<{'x'.join(map(str, shape))}xi32>" for shape in (SIZES, sizes)]
    tiles = [f"<{'x'.join(map(str, shape))}xindex>" for shape in (SIZES, sizes)]
    strides = [[*torch.empty(shape).stride()] for shape in (SIZES, sizes)]
    zeros = [", ".join(["%c0"] * len(shape)) for shape in (SIZES, sizes)]
    return "\n".join(
        [
            "func.func @f(%in: index, %out: index) {",
            "%c0 = arith.constant 0 : index",
            f"%iv = ktdp.construct_memory_view %in, sizes: {[*SIZES]}, strides: {strides[0]} "
            f": {memrefs[0]}",
            f"%ov = ktdp.construct_memory_view %out, sizes: {[*sizes]}, strides: {strides[1]} "
            f": {memrefs[1]}",
            f"%it = ktdp.construct_access_tile %iv[{zeros[0]}] {{access_tile_set = {boxes[0]}}} "
            f": {memrefs[0]} -> {tiles[0]}",
            f"%ot = ktdp.construct_access_tile %ov[{zeros[1]}] {{access_tile_set = {boxes[1]}}} "
            f": {memrefs[1]} -> {tiles[1]}",
            f"%x = ktdp.load %it : {tiles[0]} -> {tensor_type(SIZES)}",
            change,
            reshape,
            f"%one = arith.constant dense<1> : {tensor_type(sizes)}",
            f"%y = arith.addi %r, %one : {tensor_type(sizes)}",
            f"ktdp.store %y, %ot : {tensor_type(sizes)}, {tiles[1]}",
            "return",
            "}",
            "",
        ]
    )


def results(content, change, sizes):
    x = torch.arange(4 * 6 * 8)
    arrays = {"in": x.tolist(), "out": [0] * torch.empty(sizes).numel()}
    Interpreter(content, arrays, []).run()
    return arrays["out"], (change(x.reshape(SIZES)).reshape(sizes) + 1).flatten().tolist()


WITHOUT_COPY = [
    pytest.param(SLICE, sliced, [2, 6, 4], [2, 6, 2, 2], [[0], [1], [2, 3]], id="split_lanes"),
    pytest.param(SLICE, sliced, [2, 6, 4], [12, 4], [[0, 1], [2]], id="join_rows_of_a_slice"),
    pytest.param(SLICE, sliced, [2, 6, 4], [2, 3, 2, 4], [[0], [1, 2], [3]], id="split_rows"),
    pytest.param(DROP, dropped, [5, 8], [40], [[0, 1]], id="join_what_lies_together"),
    pytest.param(TRANSPOSE, transposed, [8, 4, 6], [8, 24], [[0], [1, 2]], id="join_transposed"),
    pytest.param(
        TRANSPOSE, transposed, [8, 4, 6], [2, 4, 4, 6], [[0, 1], [2], [3]], id="split_transposed"
    ),
]
WITH_COPY = [
    pytest.param(SLICE, sliced, [2, 6, 4], [2, 24], [[0], [1, 2]], id="join_over_a_gap"),
    pytest.param(TRANSPOSE, transposed, [8, 4, 6], [32, 6], [[0, 1], [2]], id="join_crossed"),
]


@pytest.mark.parametrize(("change", "reference", "before", "after", "groups"), WITHOUT_COPY)
def test_a_reshape_that_strides_express_copies_nothing(change, reference, before, after, groups):
    content = compiled(program(change, joined("r", before, after, groups), after))
    assert not any(isinstance(instruction, Copy) for instruction in content.code)
    actual, expected = results(content, reference, after)
    assert actual == expected


@pytest.mark.parametrize(("change", "reference", "before", "after", "groups"), WITH_COPY)
def test_a_reshape_that_strides_cannot_express_is_a_copy(change, reference, before, after, groups):
    content = compiled(program(change, joined("r", before, after, groups), after))
    assert sum(isinstance(instruction, Copy) for instruction in content.code) == 1
    actual, expected = results(content, reference, after)
    assert actual == expected


@given(
    st.integers(1, 4),
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3),
    st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=2),
)
def test_dims_known_at_run_time_are_merged_and_split_as_views(rows, inner, columns):
    maximum, merged = 4, 4 * math.prod(inner)
    # The tensor has room for the maximum; the other dims are a group of their own.
    room = torch.arange(merged * math.prod(columns)).reshape(maximum, *inner, *columns)
    fine = [Extent(0, maximum, False), *(Extent(0, size, True) for size in inner)]
    column_extents = [Extent(0, size, True) for size in columns]
    groups = [list(range(len(fine))), list(range(len(fine), len(fine) + len(column_extents)))]
    source = TensorView(Buffer(1, "b"), ElementType.I32, (*fine, *column_extents), room.stride())
    coarse = (Extent(0, merged, False), Extent(0, math.prod(columns), True))
    merged_view = dynamic_reshape(source, coarse, groups)
    assert merged_view is not None
    sizes = rows * math.prod(inner), math.prod(columns)
    result = room.flatten().as_strided(sizes, merged_view.strides)
    assert torch.equal(result, room[:rows].reshape(sizes))
    split_view = dynamic_reshape(merged_view, (*fine, *column_extents), groups)
    assert split_view is not None
    result = room.flatten().as_strided((rows, *inner, *columns), split_view.strides)
    assert torch.equal(result, room[:rows])


def test_an_inner_dim_known_at_run_time_cannot_be_merged():
    extents = Extent(0, 2, True), Extent(0, 4, False)
    source = TensorView(Buffer(1, "b"), ElementType.I32, extents, (4, 1))
    assert dynamic_reshape(source, (Extent(0, 8, False),), [[0, 1]]) is None

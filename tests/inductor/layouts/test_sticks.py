"""Tests of the classification of sticks and of restickified layouts."""

import pytest
import sympy
from layout_graphs import F16, F32, D, row_major

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.layouts.coordinates import layout_coordinates, linear_coordinates
from torch_spyre._inductor.layouts.sticks import (
    Stick,
    StickKind,
    are_compatible,
    classify,
    device_elements,
    matching_dim,
    restickified,
)
from torch_spyre._inductor.layouts.terms import parse

d0, d1, d2 = D[:3]
ROWS = SpyreTensorLayout([512, 256], F16)


def access(index, *sizes, layout=ROWS):
    ranges = dict(zip(D, sizes, strict=False))
    return layout_coordinates(layout, parse(index, ranges))


# fmt: off
@pytest.mark.parametrize("index, sizes, expected", [
    (256 * d0, (512,), Stick(StickKind.NONE)),
    (256 * d0 + d1, (512, 256), Stick(StickKind.OFFSET_FREE, "d1")),
    (256 * d0 + d1, (512, 64), Stick(StickKind.OFFSET_FREE, "d1")),
    (d0 + 256 * d1, (256, 512), Stick(StickKind.OFFSET_FREE, "d0")),
    (256 * d0 + d1 + 128, (512, 128), Stick(StickKind.OFFSET_FREE, "d1")),
    (256 * d0 + 128 * d1 + d2, (512, 2, 128), Stick(StickKind.OFFSET_FREE, "d2")),
    (d0, (131072,), Stick(StickKind.OFFSET_FREE, "d0")),
    (256 * d0 + 5, (512,), Stick(StickKind.OFFSET)),
    (256 * d0 + d1 + 10, (512, 40), Stick(StickKind.OFFSET, "d1")),
    (256 * d0 + d1 + 10, (512, 200), Stick(StickKind.OFFSET, "d1")),
    (256 * d0 + 2 * d1, (512, 128), Stick(StickKind.UNSUPPORTED)),
    (256 * d0 + 32 * d1 + d2, (512, 8, 32), Stick(StickKind.UNSUPPORTED)),
    (256 * d0 - d1 + 255, (512, 256), Stick(StickKind.UNSUPPORTED)),
])
# fmt: on
def test_classification_of_sticks(index, sizes, expected):
    assert classify(access(index, *sizes)[-1], 64) == expected


def test_flattened_ragged_sticks_are_unsupported():
    ragged = SpyreTensorLayout([5, 70], F16)
    assert classify(access(d0, 350, layout=ragged)[-1], 64) == Stick(StickKind.UNSUPPORTED)


ROW = access(256 * d0 + d1, 512, 256)
TRANSPOSED = access(d0 + 256 * d1, 256, 512)
COLUMN = access(d0, 512, 256, layout=SpyreTensorLayout([512, 1], F16))
MEAN_OF_COLUMNS = access(d1, 512, 256, layout=SpyreTensorLayout([256, 1], F16))
VECTOR = access(d1, 512, 256, layout=SpyreTensorLayout([256], F16))
SHIFTED = access(256 * d0 + d1 + 3, 512, 200)
DIAGONAL = access(257 * d0, 256)
IN_STICKS = access(sympy.floor(d1 / 64), 512, 256, layout=SpyreTensorLayout([4, 1], F16))


@pytest.mark.parametrize(
    "accesses, expected",
    [
        ([ROW], True),
        ([ROW, ROW], True),
        ([ROW, VECTOR], True),
        ([ROW, COLUMN], True),
        ([ROW, IN_STICKS], True),
        ([ROW, TRANSPOSED], False),
        ([ROW, MEAN_OF_COLUMNS], False),
        ([ROW, SHIFTED], False),
        ([DIAGONAL], False),
        ([], True),
    ],
)
def test_compatibility_of_accesses_of_the_same_op(accesses, expected):
    assert are_compatible([(coordinates, 64) for coordinates in accesses]) == expected


def test_sticks_of_different_sizes_are_compatible():
    fp32_layout = SpyreTensorLayout([512, 256], F32)
    wide = access(256 * d0 + d1, 512, 256, layout=fp32_layout)
    assert are_compatible([(ROW, 64), (wide, 32)])


def test_the_matching_dim_has_the_variable_as_its_only_coordinate():
    ranges = {d0: 512, d1: 256}
    host = linear_coordinates((512, 256), (256, 1), parse(256 * d0 + d1, ranges))
    assert matching_dim(host, "d1") == 1
    assert matching_dim(host, "d2") is None
    shifted = linear_coordinates((512, 256), (256, 1), parse(256 * d0 + d1 + 3, {d0: 512, d1: 200}))
    assert matching_dim(shifted, "d1") is None
    diagonal = linear_coordinates((256, 256), (256, 1), parse(257 * d0, {d0: 256}))
    assert matching_dim(diagonal, "d0") is None


# fmt: off
@pytest.mark.parametrize("size, new_dim, device_size, stride_map", [
    ((512, 256), 0, [8, 256, 64], [16384, 1, 256]),
    ((2, 256, 128), 1, [128, 4, 2, 64], [1, 8192, 32768, 128]),
    ((128, 5, 256), 0, [5, 2, 256, 64], [256, 81920, 1, 1280]),
    ((67, 100), 0, [2, 100, 64], [6400, 1, 100]),
    ((2, 32, 128, 64), 2, [32, 64, 2, 2, 64], [8192, 1, 4096, 262144, 64]),
])
# fmt: on
def test_restickify_swaps_the_stick_with_another_dim(size, new_dim, device_size, stride_map):
    before = SpyreTensorLayout(list(size), F16)
    after = restickified(size, row_major(size), F16, before, new_dim)
    assert (after.device_size, after.stride_map) == (device_size, stride_map)


def test_restickify_makes_sparse_sticks_dense():
    sparse = SpyreTensorLayout([512, 256], [256, 1], F16, [0, 1, -1])
    assert restickified((512, 256), (256, 1), F16, sparse, 1) == ROWS


def test_device_elements_include_padding():
    assert device_elements(SpyreTensorLayout([67, 100], F16)) == 2 * 67 * 64

"""The reference model of layouts, compared with the published examples."""

import numpy as np
import pytest
import torch

from torch_spyre.testing import layouts
from torch_spyre.testing.formats import IEEE_FP32, SEN169_FP16
from torch_spyre.testing.layouts import Layout, default_layout, layout

FP16 = torch.float16


@pytest.mark.parametrize("worked", layouts.WORKED_LAYOUTS, ids=repr)
def test_the_worked_layouts_that_are_published(worked):
    built = layout(worked.host_size, worked.host_strides, worked.dtype, worked.dim_order)
    assert built.device_size == worked.device_size
    assert built.stride_map == worked.stride_map
    assert built.device_bytes == worked.device_bytes


def test_the_default_layout_is_the_identity_order_on_row_major_strides():
    assert default_layout([5, 100, 150], FP16) == layout(
        [5, 100, 150], [15000, 150, 1], FP16, range(3)
    )


def test_the_rank_is_not_limited():
    built = default_layout([2] * 8 + [70], FP16)
    assert built.device_size == (2,) * 7 + (2, 2, 64)
    assert built.stride_map[-3:] == (64, 70 * 2**7, 1)


@pytest.mark.parametrize("order", [[0], [0, 1, 2], [0, 1, -1, -1]])
def test_an_order_of_the_wrong_length_is_rejected(order):
    with pytest.raises(ValueError, match="Incompatible host_size and dim_order"):
        layout([4, 5], [5, 1], FP16, order)


@pytest.mark.parametrize("order", [[], [-1]])
def test_a_scalar_is_one_stick_in_either_order(order):
    assert layout([], [], FP16, order) == default_layout([], FP16)


# --- Device offsets -------------------------------------------------------------------------------

# Layout, and (host offset, device offset) pairs at both ends of each copy nest.
DEVICE_OFFSETS = [
    (
        default_layout([1024, 256], FP16),
        [(0, 0), (64, 65536), (256, 64), (1023 * 256 + 255, 262143)],
    ),
    (default_layout([120], FP16), [(64, 64), (119, 119)]),
    (default_layout([512, 240], FP16), [(192, 98304), (239, 98304 + 47), (240 + 192, 98304 + 64)]),
    (default_layout([5, 100, 150], FP16), [(128, 640), (150, 960), (15000, 64), (64, 320)]),
    (default_layout([3, 100], torch.float32), [(96, 288), (99, 291), (100, 32)]),
    (layout([67, 100], [100, 1], FP16, [1, 0]), [(6400, 6400), (6600, 6402), (1, 64), (100, 1)]),
    (layout([512, 256], [256, 1], FP16, [0, 1, -1]), [(256, 64), (1, 32768)]),
    (layout([7], [1], FP16, [0, -1]), [(0, 0), (6, 384)]),
    (Layout((38, 64), (64, 1), SEN169_FP16), [(2368, 2368), (2399, 2399)]),
    (
        Layout((3, 2, 14, 64), (120, 64, 360, 1), SEN169_FP16),
        [(4680, 832), (64, 896), (4744, 1728), (120, 1792), (360, 64)],
    ),
    (default_layout([], FP16), [(0, 0)]),
]


@pytest.mark.parametrize(("where", "pairs"), DEVICE_OFFSETS)
def test_device_offsets_match_the_published_examples(where, pairs):
    for host, device in pairs:
        assert layouts.device_offset(host, where.device_size, where.stride_map) == device


def test_of_two_dims_with_one_stride_the_earlier_takes_the_element():
    assert layouts.device_offset(7, [1, 60, 64], [64, 1, 1]) == 7 * 64


@pytest.mark.parametrize(
    ("host", "device_size", "stride_map"),
    [(128, [2, 64], [64, 1]), (5, [4, 2, 64], [-1, 4, -1]), (-1, [2, 64], [64, 1])],
)
def test_an_invalid_host_offset_is_rejected(host, device_size, stride_map):
    with pytest.raises(ValueError, match="host offset"):
        layouts.device_offset(host, device_size, stride_map)


@pytest.mark.parametrize(
    ("column", "stick", "slot"),
    [(0, 0, 0), (4, 1, 0), (8, 0, 4), (63, 1, 31), (70, 3, 2), (37, 1, 17)],
)
def test_widened_sticks_alternate_in_groups_of_four(column, stick, slot):
    offset = layouts.device_offset(column, [4, 32], [32, 1], layouts.DL16_TO_FP32)
    assert divmod(int(offset), 32) == (stick, slot)


@pytest.mark.parametrize(
    ("column", "slot"), [(0, 0), (4, 8), (32, 4), (36, 12), (63, 63), (37, 13), (64 + 4, 64 + 8)]
)
def test_narrowed_sticks_interleave_groups_of_four(column, slot):
    assert layouts.device_offset(column, [2, 64], [64, 1], layouts.FP32_TO_DL16) == slot


def test_widening_in_rows_moves_columns_within_their_row():
    where = Layout((4, 3, 32), (32, 128, 1), IEEE_FP32, layouts.DL16_TO_FP32)
    offset = layouts.device_offset(
        2 * 128 + 70, where.device_size, where.stride_map, where.arrangement
    )
    assert offset == 3 * 3 * 32 + 2 * 32 + 2


def test_narrowing_the_widened_order_is_sequential_again():
    columns = np.arange(128)
    wide = layouts.device_offset(columns, [4, 32], [32, 1], layouts.DL16_TO_FP32)
    narrow = layouts.device_offset(wide, [2, 64], [64, 1], layouts.FP32_TO_DL16)
    np.testing.assert_array_equal(narrow, columns)


def test_widening_needs_an_even_number_of_sticks():
    with pytest.raises(ValueError, match="even number of sticks"):
        layouts.device_offset(0, [3, 32], [32, 1], layouts.DL16_TO_FP32)


def test_an_unpublished_arrangement_is_rejected():
    with pytest.raises(ValueError, match="QFP8CH"):
        layouts.device_offset(0, [1, 128], [128, 1], "QFP8CH")


def test_one_element_per_stick_has_no_order_to_change():
    where = layout([7], [1], FP16, [0, -1])
    offset = layouts.device_offset(6, where.device_size, where.stride_map, layouts.FP32_TO_DL16)
    assert offset == 384


# --- Copies ---------------------------------------------------------------------------------------


def numbered(size) -> np.ndarray:
    return np.arange(1, np.prod(size, dtype=int) + 1, dtype=np.uint16).reshape(size)


@pytest.mark.parametrize(("size", "device_size", "stride_map"), layouts.EXPLICIT_LAYOUTS)
def test_explicit_layouts_round_trip(size, device_size, stride_map):
    where = Layout(device_size, stride_map, SEN169_FP16)
    device = where.empty_device()
    codes = numbered(size)
    strides = layouts.contiguous_strides(size)
    layouts.write(device, codes, where, strides)
    np.testing.assert_array_equal(layouts.read(device, where, size, strides), codes)
    copies = 512 if 0 in stride_map else 1
    assert np.count_nonzero(device) == codes.size * copies


def test_a_replicate_dim_repeats_the_data_and_reads_the_first_copy():
    where = Layout((1, 3, 64), (64, 0, 1), SEN169_FP16)
    device = where.empty_device()
    layouts.write(device, numbered([60]), where, [1])
    rows = device.reshape(3, 64)
    np.testing.assert_array_equal(rows[:, :60], np.stack([numbered([60])] * 3))
    rows[1:] = 0
    np.testing.assert_array_equal(layouts.read(device, where, [60], [1]), numbered([60]))


def test_padding_is_not_written():
    where = default_layout([3, 100], FP16)
    device = where.empty_device(fill_byte=0xA5)
    layouts.write(device, np.zeros((3, 100), np.uint16), where, [100, 1])
    grid = device.reshape(2, 3, 64)
    assert (grid[1, :, 36:] == 0xA5A5).all()
    assert np.count_nonzero(device) == 3 * 28


def test_view_reads_the_same_elements_as_numpy():
    base = numbered([6, 70])
    where = default_layout(base.shape, FP16)
    device = where.empty_device()
    layouts.write(device, base, where, [70, 1])
    np.testing.assert_array_equal(layouts.read(device, where, [70, 6], [1, 70]), base.T)
    np.testing.assert_array_equal(
        layouts.read(device, where, [3, 22], [140, 3], 72), base[1::2, 2:68:3]
    )
    np.testing.assert_array_equal(layouts.read(device, where, [4, 70], [0, 1], 140), base[[2] * 4])
    np.testing.assert_array_equal(layouts.read(device, where, [420], [1]), base.ravel())


def test_writing_into_a_view_changes_those_elements_only():
    base = numbered([6, 70])
    where = default_layout(base.shape, FP16)
    device = where.empty_device()
    layouts.write(device, base, where, [70, 1])
    layouts.write(device, np.zeros((3, 10), np.uint16), where, [140, 2], 70 + 60 - 20)
    base.reshape(-1)[layouts.host_offsets([3, 10], [140, 2], 110)] = 0
    np.testing.assert_array_equal(layouts.read(device, where, [6, 70], [70, 1]), base)


@pytest.mark.parametrize("size", [[], [0], [3, 0, 5]])
def test_scalars_and_empty_tensors_copy(size):
    where = default_layout(size, FP16)
    device = where.empty_device()
    codes = numbered(size)
    layouts.write(device, codes, where, layouts.contiguous_strides(size))
    assert device.size * 2 == where.device_bytes
    np.testing.assert_array_equal(
        layouts.read(device, where, size, layouts.contiguous_strides(size)), codes
    )

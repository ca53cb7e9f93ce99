"""Layouts without whole sticks of elements: pools and linear layouts."""

import pickle

import pytest
import torch

from torch_spyre import _C

DataFormats = _C.DataFormats
ElementArrangement = _C.ElementArrangement
SpyreTensorLayout = _C.SpyreTensorLayout

RAW = [
    SpyreTensorLayout.pool(0),
    SpyreTensorLayout.pool(7),
    SpyreTensorLayout.pool(7).with_element_arrangement(ElementArrangement.EXX2),
    SpyreTensorLayout.linear(0),
    SpyreTensorLayout.linear(128),
    SpyreTensorLayout.linear(300),
    SpyreTensorLayout.linear(count=300, device_dtype=DataFormats.IEEE_FP32),
    SpyreTensorLayout.linear(3, DataFormats.IEEE_INT64),
]


def test_a_pool_is_raw_sticks():
    pool = SpyreTensorLayout.pool(7)
    assert (pool.device_size, pool.stride_map) == ([7, 1, 1], [1, 1, 1])
    assert (pool.device_dtype, pool.device_bytes()) == (DataFormats.SENINT8, 7 * 128)
    assert pickle.loads(pickle.dumps(pool)) == pool


@pytest.mark.parametrize("layout", RAW, ids=str)
def test_layouts_without_whole_sticks_print_as_python_and_pickle(layout):
    for again in (eval(str(layout)), eval(repr(layout)), pickle.loads(pickle.dumps(layout))):
        assert again == layout


def test_a_storage_of_plain_bytes_has_a_linear_layout():
    raw = torch.empty(0, dtype=torch.uint8, device="spyre")
    raw.set_(torch.UntypedStorage(300, device="spyre"))
    layout = raw.device_tensor_layout()
    assert str(layout) == "SpyreTensorLayout.linear(300, DataFormats.SENINT8)"
    assert layout.device_bytes() == 300 and pickle.loads(pickle.dumps(layout)) == layout


@pytest.mark.parametrize("count", [65, 10**6])
def test_linear_layout_larger_than_the_storage_raises(count):
    card = torch.zeros(32, device="spyre")
    layout = SpyreTensorLayout.linear(count, DataFormats.IEEE_FP32)
    with pytest.raises(RuntimeError, match=rf"takes {count * 4} bytes, but the storage has 128"):
        _C.as_strided_with_layout(card, [count], [1], 0, layout)
    for wrong in ((-1, DataFormats.SENINT8), (4, DataFormats.INVALID)):
        with pytest.raises(ValueError, match="cannot hold"):
            SpyreTensorLayout.linear(*wrong)

"""Storages on the card: indexing, slices that alias, clones."""

import pytest
import torch


def on_card():
    return torch.arange(4.0, device="spyre")


def bytes_of(*values):
    return torch.tensor(values).untyped_storage().tolist()


def test_a_slice_has_the_bytes_of_the_host_image():
    assert on_card().untyped_storage()[4:12].tolist() == bytes_of(1.0, 2.0)


def test_a_slice_of_a_slice():
    assert on_card().untyped_storage()[4:16][4:8].tolist() == bytes_of(2.0)


def test_writing_a_slice_writes_the_storage():
    x = on_card()
    x.untyped_storage()[4:12].fill_(0)
    assert x.tolist() == [0, 0, 0, 3]
    x.untyped_storage()[:4].copy_(torch.tensor([5.0]).untyped_storage())
    assert x.tolist() == [5, 0, 0, 3]


def test_a_slice_keeps_the_storage_alive():
    part = on_card().untyped_storage()[8:12]
    assert part.tolist() == bytes_of(2.0) and part.nbytes() == 4


def test_elements_of_typed_storages_are_read_and_written():
    x = on_card()
    storage = x.storage()
    assert storage[1] == 1.0
    storage[1] = 7.0
    storage[2:4] = 0.0
    assert x.tolist() == [0, 7, 0, 0]


@pytest.mark.parametrize("index", [slice(0, 8, 2), 4096, "a"])
def test_invalid_indices_raise_as_on_the_cpu(index):
    with pytest.raises((RuntimeError, IndexError, TypeError)) as expected:
        torch.arange(4.0).untyped_storage()[index]
    with pytest.raises(expected.type):
        on_card().untyped_storage()[index]


def test_a_slice_is_no_storage_of_other_dtypes_and_cannot_be_resized():
    part = on_card().untyped_storage()[4:8]
    with pytest.raises(RuntimeError, match="holds bytes"):
        torch.empty(0, device="spyre").set_(part, 0, (1,), (1,))
    with pytest.raises(RuntimeError, match="resizable"):
        part.resize_(8)


def test_byteswap_is_an_error():
    with pytest.raises(TypeError, match="memory that the host can read"):
        on_card().untyped_storage().byteswap(torch.float32)


def test_a_lazy_clone_is_independent():
    x = on_card()
    clone = x[1:]._lazy_clone()
    x.add_(1)
    assert clone.tolist() == [1, 2, 3] and x.tolist() == [1, 2, 3, 4]

"""Bytes, resizing and aliasing of storages on the card."""

import functools

import pytest
import torch
from tensor_samples import assert_equal, counting, sample, shares_storage

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]


def test_a_storage_without_a_dtype_holds_plain_bytes():
    storage = torch.UntypedStorage(200, device="spyre")
    assert storage.nbytes() == 200 and storage.device == torch.device("spyre", 0)
    data = torch.arange(200, dtype=torch.uint8)
    storage.copy_(data.untyped_storage())
    assert storage.cpu().tolist() == data.tolist() == storage.tolist()
    assert storage[7] == 7 and len(storage) == 200
    storage.fill_(5)
    assert storage.tolist() == [5] * 200
    twin = storage.clone()
    twin.fill_(6)
    assert storage[0] == 5 and twin.cpu()[0] == 6


def test_bytes_become_elements_when_a_tensor_takes_the_storage():
    host = counting(6, 130)
    storage = torch.UntypedStorage(host.nbytes, device="spyre")
    storage.copy_(host.untyped_storage())
    taken = torch.empty(0, dtype=torch.float16, device="spyre").set_(storage, 0, (6, 130), (130, 1))
    assert_equal(taken, host)
    assert torch.equal(taken.cpu(), host) and taken.untyped_storage().nbytes() >= host.nbytes


def test_typed_storage_has_the_bytes_of_the_host():
    for dtype in (torch.float32, torch.int64, torch.int16, torch.bool, torch.bfloat16):
        host = sample((4, 130), dtype)
        image = host.to("spyre").untyped_storage().cpu()
        assert image.tolist()[: host.nbytes] == host.untyped_storage().tolist()


@pytest.mark.parametrize("grown", [16, 48, 4000])
def test_resized_storage_preserves_its_prefix(grown):
    for dtype in (torch.float16, torch.float32, torch.int64):
        card = sample((8,), dtype).to("spyre")
        card.untyped_storage().resize_(grown)
        assert card.untyped_storage().nbytes() >= grown
        kept = min(8, grown // dtype.itemsize)
        assert torch.equal(card.as_strided((kept,), (1,)).cpu(), sample((8,), dtype)[:kept])
    raw = torch.UntypedStorage(32, device="spyre")
    raw.fill_(9)
    raw.resize_(grown)
    assert raw.nbytes() == grown and raw.tolist()[: min(32, grown)] == [9] * min(32, grown)


def test_storage_resized_to_zero_and_back_can_be_filled():
    card = counting(6, 130).to("spyre")
    bytes_before, allocated = card.untyped_storage().nbytes(), torch.spyre.memory_allocated()
    card.untyped_storage().resize_(0)
    assert torch.spyre.memory_allocated() == allocated - bytes_before
    card.untyped_storage().resize_(bytes_before)
    card.copy_(counting(6, 130))
    assert_equal(card, counting(6, 130))


def test_set_in_all_four_forms():
    source = counting(6, 130).to("spyre")
    storage = source.untyped_storage()
    empty = functools.partial(torch.empty, 0, dtype=torch.float16, device="spyre")
    assert empty().set_().shape == (0,)
    assert_equal(empty().set_(storage)[:780], counting(780))
    assert_equal(empty().set_(source.t()), counting(6, 130).t())
    part = empty().set_(storage, 130, (2, 3), (260, 2))
    assert_equal(part, counting(6, 130)[1:5:2, :6:2])
    for tensor in (empty().set_(storage), empty().set_(source), part):
        assert shares_storage(tensor, source)
    part.fill_(-1)
    assert source[1, 4].item() == -1 and source[3, 0].item() == -1 and source[1, 1].item() == 131


@pytest.mark.parametrize("size", [(4,), (2, 3), (6, 130), (780,), (9, 200), (0,), ()])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_resize_preserves_flat_positions(dtype, size):
    host = counting(6, 130, dtype=dtype)
    card = host.to("spyre")
    memory = card.untyped_storage().nbytes()
    assert card.resize_(size) is card and card.shape == size and card.is_contiguous()
    common = min(780, torch.Size(size).numel())
    assert torch.equal(card.cpu().flatten()[:common], host.flatten()[:common])
    if common < 780:
        assert card.untyped_storage().nbytes() == memory
        assert_equal(card.resize_(6, 130), host)


def test_resize_of_a_view_moves_only_the_view():
    card = counting(6, 130).to("spyre")
    view = card[2:]
    view.resize_(3)
    assert view.tolist() == [260, 261, 262]
    assert_equal(card, counting(6, 130))

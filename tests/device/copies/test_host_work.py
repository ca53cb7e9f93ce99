"""Copies and new layouts of storages compute on the card, or count as a fallback."""

import pytest
import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

DEV = "spyre"
HOST_WORK = ("fallbacks", "d2h_bytes", "h2d_bytes")


def host_work(action):
    """Return the fallbacks and the bytes over the host link that `action` adds."""
    before = torch.spyre.counters()
    action()
    after = torch.spyre.counters()
    return {name: after[name] - before[name] for name in HOST_WORK if after[name] != before[name]}


def bytes_of(tensor):
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


# --- Lazy negation --------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_the_card_negates_a_view_that_is_copied_within_it(dtype):
    source = torch.arange(64, dtype=dtype).to(DEV)
    target = torch.zeros(64, dtype=dtype, device=DEV)
    launches = torch.spyre.counters()["launches"]
    assert host_work(lambda: target.copy_(source._neg_view())) == {}
    assert torch.spyre.counters()["launches"] > launches
    assert torch.equal(target.cpu(), -torch.arange(64, dtype=dtype))
    assert host_work(lambda: target._neg_view().copy_(source)) == {}
    assert torch.equal(target.cpu(), -torch.arange(64, dtype=dtype))


@pytest.mark.usefixtures("kernels")
def test_the_card_negates_a_view_that_is_copied_to_the_host():
    source, target = torch.arange(64.0).to(DEV), torch.zeros(64)
    launches = torch.spyre.counters()["launches"]
    assert host_work(lambda: target.copy_(source._neg_view())) == {"d2h_bytes": 256}
    assert torch.spyre.counters()["launches"] > launches
    assert torch.equal(target, -torch.arange(64.0))


# --- Layouts of storages --------------------------------------------------------------------------


def test_a_storage_with_gaps_is_resized_on_the_card():
    card = torch.empty_strided((4, 4), (100, 1), device=DEV)
    card.copy_(torch.arange(16.0).reshape(4, 4))
    assert host_work(lambda: card.untyped_storage().resize_(203 * 4)) == {}
    expected = torch.zeros(304)
    expected.as_strided((4, 4), (100, 1)).copy_(torch.arange(16.0).reshape(4, 4))
    assert torch.equal(card.as_strided((203,), (1,)).cpu(), expected[:203])


@pytest.mark.parametrize("size", [16, 4000])
def test_a_storage_without_a_dtype_is_resized_on_the_card(size):
    storage = torch.UntypedStorage(200, device=DEV)
    storage.copy_(torch.arange(200, dtype=torch.uint8).untyped_storage())
    assert host_work(lambda: storage.resize_(size)) == {}
    common = min(size, 200)
    assert storage.nbytes() == size and storage.tolist()[:common] == list(range(common))


# --- The bytes of storages ------------------------------------------------------------------------


def test_a_copy_of_bytes_between_storages_of_the_card_is_a_fallback():
    source, target = (torch.arange(64, dtype=dtype).to(DEV) for dtype in (torch.int64, torch.half))
    expected = torch.arange(64, dtype=torch.int64).view(torch.half)[:64]
    work = host_work(lambda: bytes_of(target).copy_(bytes_of(source)[:128]))
    assert work["fallbacks"] == 1
    assert torch.equal(target.cpu(), expected.to(DEV).cpu())


def test_a_fill_of_bytes_is_a_fallback():
    card = torch.zeros(32, dtype=torch.int32, device=DEV)
    assert host_work(lambda: card.untyped_storage().fill_(1))["fallbacks"] == 1
    assert card.tolist() == [0x01010101] * 32


def test_host_bytes_that_replace_a_storage_are_only_copied_to_the_card():
    card = torch.zeros(32, dtype=torch.int32, device=DEV)
    host = torch.arange(32, dtype=torch.int32).view(torch.uint8)
    assert host_work(lambda: bytes_of(card).copy_(host)) == {"h2d_bytes": 128}
    assert card.tolist() == list(range(32))


def test_host_bytes_that_replace_a_part_of_a_storage_are_merged_by_a_fallback():
    card = torch.zeros(32, dtype=torch.int32, device=DEV)
    host = torch.arange(32, dtype=torch.int32).view(torch.uint8)
    work = host_work(lambda: bytes_of(card)[6:70].copy_(host[6:70]))
    assert work == {"fallbacks": 1, "d2h_bytes": 128, "h2d_bytes": 128}
    merged = torch.zeros(128, dtype=torch.uint8)
    merged[6:70] = host[6:70]
    assert torch.equal(card.cpu(), merged.view(torch.int32))


# --- Random elements ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x.uniform_(),
        lambda x: x.normal_(),
        lambda x: x.exponential_(),
        lambda x: x.bernoulli_(0.5),
        lambda x: x.random_(),
        lambda x: x[::2].cauchy_(),
    ],
)
def test_a_draw_of_random_elements_copies_none_from_the_card(draw):
    card, again = torch.zeros(64, device=DEV), torch.zeros(64, device=DEV)
    torch.manual_seed(0)
    work = host_work(lambda: draw(card))
    torch.manual_seed(0)
    draw(again)
    assert work["fallbacks"] == 1 and "d2h_bytes" not in work
    assert card.any() and torch.equal(card.cpu(), again.cpu())

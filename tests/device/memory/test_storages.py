"""Layout changes of storages preserve content, update views, and are atomic on failure."""

import copy
import io
import os
import subprocess
import sys

import pytest
import torch

from torch_spyre import _C

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
]

DEV = "spyre"
GAPPED = ((4, 4), (100, 1))


def counting(*size, dtype=torch.float32):
    return torch.arange(torch.Size(size).numel()).reshape(size).to(dtype)


def gapped():
    return torch.empty_strided(*GAPPED, device=DEV).copy_(counting(4, 4))


def bytes_of(tensor):
    return torch.empty(0, dtype=torch.uint8, device=DEV).set_(tensor.untyped_storage())


def reloaded(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer)


# --- Growing --------------------------------------------------------------------------------------

LOADING = """
import copy, io, torch
def reloaded(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer)
for zeros in (50, 100):
    host = torch.arange(100.0)
    host[100 - zeros:] = 0
    whole = host.to("spyre")
    parts = {length: whole[:length] for length in (100 - zeros, 60, 90, 100)}
    for length, part in reloaded(parts).items():
        assert torch.equal(part.cpu(), host[:length]), part
    copied = copy.deepcopy(reloaded(whole[: 100 - zeros]))
    again = torch.empty(0, device="spyre").set_(copied.untyped_storage(), 0, (100,), (1,))
    assert torch.equal(again.cpu(), host), again
gapped = torch.empty_strided((4, 4), (100, 1), device="spyre").fill_(1)
expected = torch.zeros(304)
expected.as_strided((4, 4), (100, 1)).fill_(1)
assert torch.equal(gapped.resize_(30, 30).cpu().flatten()[:304], expected)
"""


def test_zeros_that_a_loaded_storage_dropped_come_back_when_it_grows():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADING],
        env=os.environ | {"SPYRE_EMU_POISON": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_file_preserves_storage_elements_between_those_of_a_tensor():
    whole = counting(99).to(DEV)
    actual = reloaded({"even": whole[::2], "columns": whole.view(9, 11)[:, :3], "whole": whole})
    assert torch.equal(actual["whole"].cpu(), counting(99))
    assert torch.equal(actual["even"].cpu(), counting(99)[::2])
    assert torch.equal(actual["columns"].cpu(), counting(9, 11)[:, :3])


# --- Resizing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(30, 30), (10, 10), (304,), (16,), (2, 3), (100, 3)])
def test_resize_of_a_noncontiguous_tensor_preserves_flat_positions(size):
    host = torch.zeros(304)
    host.as_strided(*GAPPED).copy_(counting(4, 4))
    card = gapped().resize_(size)
    assert torch.equal(card.cpu().flatten()[:304], host[: card.numel()])
    assert torch.equal(card.as_strided(*GAPPED).cpu(), counting(4, 4)) or card.numel() > 304


def test_resizing_a_noncontiguous_tensor_to_zero_preserves_its_storage():
    card = gapped()
    assert card.resize_(0).shape == (0,)
    assert torch.equal(card.as_strided(*GAPPED).cpu(), counting(4, 4))


@pytest.mark.parametrize("elements", [400, 303, 103, 4, 1])
def test_a_storage_with_gaps_can_be_resized(elements):
    card = gapped()
    card.untyped_storage().resize_(elements * 4)
    flat = card.as_strided((min(elements, 304),), (1,)).tolist()
    expected = torch.zeros(304)
    expected.as_strided(*GAPPED).copy_(counting(4, 4))
    assert flat == expected[:elements].tolist()


def test_a_tensor_with_gaps_can_take_a_storage_too_small_for_it():
    card = torch.ones(103, device=DEV)
    taken = torch.empty(0, device=DEV).set_(card.untyped_storage(), 0, *GAPPED)
    assert taken.flatten().tolist()[:7] == [1] * 7
    assert card.tolist() == [1] * 103


def test_repeated_elements_are_stored_once_and_survive():
    card = torch.empty_strided((3, 4), (0, 1), device=DEV)
    card[0].copy_(counting(4))
    assert card.tolist() == [[0, 1, 2, 3]] * 3
    image = torch.empty(0).set_(card.untyped_storage().cpu())
    assert image[:4].tolist() == [0, 1, 2, 3]
    assert copy.deepcopy(card).tolist() == card.tolist()
    card.resize_(2, 4)
    assert card[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [(1000,), (3,), (2, 4)])
def test_resize_of_byte_views_raises(size):
    card = counting(8).to(DEV)
    with pytest.raises(RuntimeError, match=r"resize the storage: x.untyped_storage\(\).resize_"):
        bytes_of(card).resize_(size)
    assert torch.equal(card.cpu(), counting(8))
    raw = torch.UntypedStorage(200, device=DEV).fill_(7)
    with pytest.raises(RuntimeError, match="bytes"):
        torch.empty(0, dtype=torch.uint8, device=DEV).set_(raw).resize_(size)
    assert raw.tolist() == [7] * 200


def test_failed_resize_changes_nothing():
    for card in (gapped(), counting(4, 4).to(DEV)):
        bytes_before = card.untyped_storage().nbytes()
        with pytest.raises(torch.OutOfMemoryError):
            card.resize_(2**20, 2**20)
        assert card.shape == (4, 4) and card.untyped_storage().nbytes() == bytes_before
        assert torch.equal(card.cpu(), counting(4, 4))


# --- Views in another dtype -----------------------------------------------------------------------


def int_bits(tensor):
    return tensor.cpu().contiguous().view(torch.int32)


def test_dtype_view_follows_a_layout_change_of_its_base():
    card = counting(6, 130, dtype=torch.int32).to(DEV)
    view = card.view(torch.float32)
    part = view[2:, 1:]
    card.resize_(130, 6)
    assert torch.equal(int_bits(view), counting(6, 130, dtype=torch.int32))
    assert torch.equal(int_bits(part), counting(6, 130, dtype=torch.int32)[2:, 1:])
    card.resize_(9, 200)
    assert torch.equal(int_bits(view), counting(6, 130, dtype=torch.int32))
    view.fill_(1.5)
    assert card.view(torch.float32).flatten()[779].item() == 1.5


def test_a_tensor_set_to_a_storage_of_another_dtype_follows_it_too():
    card = counting(6, 130, dtype=torch.int32).to(DEV)
    taken = torch.empty(0, device=DEV).set_(card.untyped_storage(), 0, (6, 130), (130, 1))
    card.resize_(130, 6)
    assert torch.equal(int_bits(taken), counting(6, 130, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="out of bounds for a spyre storage of 780 elements"):
        taken.set_(card.untyped_storage(), 0, (800,), (1,))


def test_dtype_view_has_no_layout_and_its_copies_alias_alike():
    card = counting(6, 130, dtype=torch.int32).to(DEV)
    pair = [card, card.view(torch.float32)]
    assert not _C.has_own_layout(pair[1])
    assert pair[1].view(torch.int32).device_tensor_layout() == card.device_tensor_layout()
    base, view = copy.deepcopy(pair)
    assert base.untyped_storage()._cdata == view.untyped_storage()._cdata
    view[0, 0] = 1.0
    assert base[0, 0].item() == 0x3F800000 and view.dtype == torch.float32
    assert card[0, 0].item() == 0
    alone = reloaded(pair[1])
    assert alone.dtype == torch.float32
    assert torch.equal(int_bits(alone), counting(6, 130, dtype=torch.int32))


def test_dtype_view_preserves_a_custom_layout():
    card = counting(32, 32, dtype=torch.int32).to(DEV)
    layout = _C.SpyreTensorLayout([32, 32], [32, 1], torch.int32, [1, 0])
    relabelled = _C.as_strided_with_layout(card, [32, 32], [32, 1], 0, layout)
    assert torch.equal(int_bits(relabelled.view(torch.float32)), relabelled.cpu())
    assert _C.has_own_layout(relabelled.view(torch.float32))


def test_resize_of_a_dtype_view_raises():
    card = counting(8, dtype=torch.int32).to(DEV)
    with pytest.raises(RuntimeError, match="view in another dtype"):
        card.view(torch.float32).resize_(100)
    assert torch.equal(card.cpu(), counting(8, dtype=torch.int32))


# --- Detached tensors and parameters --------------------------------------------------------------


@pytest.mark.parametrize(
    "derive",
    [
        lambda t: t.detach(),
        lambda t: t.data,
        lambda t: torch.nn.Parameter(t),
        lambda t: torch.nn.Parameter(t).detach(),
        lambda t: torch.nn.Buffer(t),
    ],
    ids=["detach", "data", "parameter", "detached parameter", "buffer"],
)
def test_derived_tensors_can_take_a_layout(derive):
    card = counting(32, 32).to(DEV)
    layout = _C.SpyreTensorLayout([32, 32], [32, 1], torch.float32, [1, 0])
    derived = derive(card)
    _C.set_spyre_tensor_layout(derived, layout)
    assert derived.device_tensor_layout() == layout != card.device_tensor_layout()
    assert torch.equal(derived.detach().cpu(), counting(32, 32).t())
    assert torch.equal(card.cpu(), counting(32, 32))


def test_a_detached_tensor_can_take_the_bytes_of_a_storage():
    card = counting(8).to(DEV)
    taken = torch.empty(0, dtype=torch.uint8, device=DEV).detach().set_(card.untyped_storage())
    assert taken.tolist()[:32] == counting(8).view(torch.uint8).tolist()


def test_dispatch_modes_and_subclasses_see_a_detach():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    card = counting(8).to(DEV)
    with Log():
        assert torch.equal(card.detach().cpu(), counting(8))
    assert torch.ops.aten.detach.default in seen
    with FakeTensorMode() as mode:
        assert isinstance(mode.from_tensor(card).detach(), FakeTensor)

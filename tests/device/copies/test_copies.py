"""Copies between host and card: who is written to, and which sign arrives."""

import pytest
import torch

from torch_spyre import _C

pytestmark = pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")

DEV = "spyre"


# --- Copy-on-write tensors ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_copy_from_the_card_does_not_write_lazy_clones(dtype):
    original = torch.zeros(4)
    clone = torch._lazy_clone(original)
    clone.copy_(torch.ones(4, dtype=dtype, device=DEV))
    assert original.tolist() == [0] * 4
    assert clone.tolist() == [1] * 4


def test_a_lazy_clone_can_be_copied_to_the_card_without_ending_the_sharing():
    original = torch.arange(4.0)
    clone = torch._lazy_clone(original)
    assert clone.to(DEV).tolist() == [0, 1, 2, 3]
    assert torch._C._is_cow_tensor(original) and torch._C._is_cow_tensor(clone)


# --- Lazy negation and conjugation ----------------------------------------------------------------


@pytest.mark.parametrize("target_dtype", [torch.int32, torch.float32, torch.float16])
@pytest.mark.parametrize("source_dtype", [torch.float32, torch.int32, torch.float16])
@pytest.mark.parametrize("devices", [(DEV, "cpu"), ("cpu", DEV), (DEV, DEV)])
@pytest.mark.parametrize("negated", [(True, True), (True, False), (False, True)])
def test_lazy_negation_of_either_side_is_resolved(devices, negated, source_dtype, target_dtype):
    source = torch.tensor([3, -4, 0, 7], dtype=source_dtype).to(devices[0])
    target = torch.zeros(4, dtype=target_dtype).to(devices[1])
    source = source._neg_view() if negated[0] else source
    target = target._neg_view() if negated[1] else target
    expected = [-3, 4, 0, -7] if negated[0] else [3, -4, 0, 7]
    assert source.tolist() == expected
    target.copy_(source)
    assert target.tolist() == expected
    assert source.tolist() == expected


@pytest.mark.parametrize("part", ["real", "imag"])
def test_real_and_imag_of_conjugates_are_copied_with_their_sign(part):
    conjugate = torch.tensor([1 + 2j, -3 - 4j]).conj()
    expected = getattr(conjugate, part).tolist()
    card = getattr(conjugate, part).to(DEV)
    assert card.tolist() == expected
    target = torch.zeros(2, dtype=torch.complex64).conj()
    getattr(target, part).copy_(card)
    assert getattr(target, part).tolist() == expected
    getattr(target, part).copy_(card._neg_view())
    assert getattr(target, part).tolist() == [-value for value in expected]


def test_conjugated_complex_tensors_give_and_take_real_values():
    card = torch.tensor([1.0, -2.0], device=DEV)
    target = torch.zeros(2, dtype=torch.complex64).conj()
    target.copy_(card)
    assert target.tolist() == [1, -2]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        card.copy_(torch.tensor([5 + 1j, 6 + 2j]).conj())
    assert card.tolist() == [5, 6]


# --- Raw memory -----------------------------------------------------------------------------------


def test_a_tensor_without_memory_has_no_bytes():
    nothing = torch.empty(0, device=DEV)
    taken_away = torch.ones(4, device=DEV)
    taken_away.untyped_storage().resize_(0)
    for tensor in (nothing, taken_away):
        assert _C._device_bytes(tensor).numel() == 0
        _C._set_device_bytes(tensor, torch.empty(0, dtype=torch.uint8))
        with pytest.raises(RuntimeError, match="expected 0 bytes, got 3"):
            _C._set_device_bytes(tensor, torch.zeros(3, dtype=torch.uint8))


def test_bytes_that_are_written_are_those_that_are_read():
    tensor = torch.zeros(4, device=DEV)
    data = torch.arange(128, dtype=torch.uint8)
    _C._set_device_bytes(tensor, torch._lazy_clone(data))
    assert torch.equal(_C._device_bytes(tensor), data)
    assert torch.equal(tensor.cpu(), data[:16].view(torch.float32))


# --- Filling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("fill", [lambda x: x.fill_(1), torch.zero_], ids=["one", "zero"])
def test_fill_of_an_expanded_tensor_writes_each_element_once(dtype, fill):
    """Every element gets the same value, so that it does not matter which of them writes it."""
    host = torch.arange(12).reshape(3, 4).to(dtype)
    card = host.to(DEV)
    for tensor in (host, card):
        assert fill(tensor[:, 1:2].expand(3, 5)).shape == (3, 5)
        fill(tensor[0, 3].expand(2, 2))
    assert torch.equal(card.cpu(), host)

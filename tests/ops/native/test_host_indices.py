"""Tensors on the card, indexed by tensors on the host: PyTorch allows that on any device."""

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_reference

PLACES = torch.tensor([3, 0, 2, 3, 1])


def read(x, index):
    return x[index] * 2


def read_in_the_middle(x, index):
    return x[:, index.view(-1), None]


def written(x, index):
    x = x.clone()
    x[index[:2]] = 5.0
    return x


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("function", [read, read_in_the_middle, written])
def test_cpu_indices_are_copied_to_the_card(function, compiled, no_fallbacks, caplog):
    x = make_tensor(4, 70)
    torch._dynamo.reset()
    run = torch.compile(function) if compiled else function
    actual = run(x.to("spyre"), PLACES)
    assert actual.device.type == "spyre"
    assert_close(actual, function(to_reference(x), PLACES))
    assert "op by op" not in caplog.text


def test_indexing_with_cpu_indices_is_differentiable(no_fallbacks):
    x = make_tensor(4, 70).to("spyre").requires_grad_()
    read(x, PLACES).backward(torch.ones(5, 70, dtype=x.dtype, device="spyre"))
    counts = torch.tensor([1.0, 1.0, 1.0, 2.0]) * 2
    assert torch.equal(x.grad.cpu().float(), counts[:, None].expand(4, 70))


def test_card_indices_on_a_cpu_tensor_raise():
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(4)[PLACES.to("spyre")]


@pytest.mark.parametrize("place", [4, -5, 2**32])
def test_out_of_bounds_cpu_index_raises_immediately(place):
    x = make_tensor(3, 4).to("spyre")
    with pytest.raises(IndexError, match=f"index {place} is out of bounds for dimension 1"):
        x[:, torch.tensor([0, place])]


def test_cpu_bool_masks_are_accepted():
    x = make_tensor(4, 70)
    flags = torch.tensor([True, False, True, False])
    assert torch.equal(x.to("spyre")[flags].cpu(), x.to("spyre").cpu()[flags])

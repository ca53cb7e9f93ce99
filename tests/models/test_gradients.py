"""Gradients of stock models on the card in float32, against the CPU in float64."""

import pytest
import torch
from model_families import FAMILIES, LEFT
from test_families import main_output

QUICK = ("granite",)
# Relative to the size of all gradients; two layers in float32, whose unit is 1.2e-7.
CLOSE = 2e-5


def each_family():
    for name in FAMILIES:
        yield pytest.param(name, marks=() if name in QUICK else pytest.mark.heavy)


def loss_of(model, family, device, dtype):
    inputs = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).to(device)
        for name, tensor in family.inputs.items()
        # Rows of padding that see nothing have no gradient, on the CPU neither.
        if tensor is not LEFT
    }
    result = main_output(model(**inputs))
    # Different weights, so that no part of the result is without influence.
    weights = torch.arange(result.shape[-1], device=device).to(dtype) / result.shape[-1] - 0.5
    scores = (result * weights).sum(-1)
    mask = inputs.get("attention_mask")
    if mask is not None and mask.shape == scores.shape:
        scores = scores * mask.to(dtype)
    return (scores * scores).mean()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", list(each_family()))
def test_gradients_match_and_are_native(name, compiled):
    family = FAMILIES[name]
    torch.manual_seed(0)
    model, reference = family.make().eval(), family.make().eval()
    reference.load_state_dict(model.state_dict())
    # The CPU has no grouped_mm in float64; a loop over experts does not need it.
    reference.set_experts_implementation("eager")
    loss_of(reference.double(), family, "cpu", torch.float64).backward()
    torch._dynamo.reset()
    model = model.to("spyre")
    run = torch.compile(model) if compiled else model
    before = torch.spyre.counters()["fallbacks"]
    loss_of(run, family, "spyre", torch.float32).backward()
    assert torch.spyre.counters()["fallbacks"] == before
    error = size = 0.0
    for (where, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        if theirs.grad is None:
            assert ours.grad is None or not ours.grad.any(), where
            continue
        error += float((ours.grad.cpu().double() - theirs.grad).square().sum())
        size += float(theirs.grad.square().sum())
    # Compared over all gradients: single ones that cancel, as for key biases, are only rounding.
    assert 0 < error**0.5 <= CLOSE * size**0.5

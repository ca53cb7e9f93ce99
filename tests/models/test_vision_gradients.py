"""Stock vision models are trained on the card alone, with the gradients of float64."""

import copy

import pytest
import torch
from families import FAMILIES, IMAGES

pytestmark = pytest.mark.heavy


def backward(run, model, images):
    run(images).last_hidden_state.square().mean().backward()
    # What the output does not depend on has no gradient, or in graphs one of zeros.
    pairs = ((each, each.grad) for each in model.parameters())
    found = [torch.zeros_like(each) if grad is None else grad for each, grad in pairs]
    return torch.cat([each.detach().cpu().double().flatten() for each in found])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["resnet", "convnext", "vit", "clip"])
def test_gradients_agree_and_nothing_falls_back(name, compiled):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = FAMILIES[name].make().train()
    images = IMAGES["pixel_values"]
    reference = copy.deepcopy(model).double()
    wanted = backward(reference, reference, images.double())
    model = model.to("spyre")
    run = torch.compile(model) if compiled else model
    before = torch.spyre.counters()["fallbacks"]
    found = backward(run, model, images.to("spyre"))
    assert torch.spyre.counters()["fallbacks"] == before
    # All as one vector: the gradients of some biases are zero, and only noise is seen of them.
    assert (found - wanted).norm() / wanted.norm() < 2.0**-16

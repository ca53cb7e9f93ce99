"""Training on the card: gradients, optimizers, and losses that are scaled."""

import pytest
import torch
from torch import nn


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(50, 70), nn.Linear(70, 96), nn.SiLU(), nn.Linear(96, 50))


IDS = torch.arange(40).reshape(2, 20) % 50


def loss_of(model, ids):
    return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_agree_with_float64(compiled, no_fallbacks):
    reference, model = small_model().double(), small_model().to("spyre")
    loss_of(reference, IDS).backward()
    run = torch.compile(model) if compiled else model
    loss_of(run, IDS.to("spyre")).backward()
    for ours, exact in zip(model.parameters(), reference.parameters(), strict=True):
        # All float32: only rounding of sums of some dozens of elements.
        error = (ours.grad.cpu().double() - exact.grad).norm() / exact.grad.norm()
        assert error < 2.0**-18


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizers_step_as_on_the_cpu(make, no_fallbacks):
    on_cpu, on_card = small_model(), small_model().to("spyre")
    for model in (on_cpu, on_card):
        optimizer = make(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model, IDS.to(next(model.parameters()).device)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    for ours, theirs in zip(on_card.parameters(), on_cpu.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=2.0**-12, atol=2.0**-16)


def test_losses_are_scaled_on_the_card(no_fallbacks):
    model = small_model().to("spyre")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("spyre", init_scale=2.0**10, growth_interval=2)
    losses = []
    for _ in range(4):
        with torch.autocast("spyre", dtype=torch.float16):
            loss = loss_of(model, IDS.to("spyre"))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert scaler.get_scale() == 2.0**12


def test_infinite_gradients_skip_the_step_and_lower_the_scale(no_fallbacks):
    weight = nn.Parameter(torch.ones(3, 70, device="spyre"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("spyre", init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    weight.grad[1, 69] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    assert torch.equal(weight.detach().cpu(), torch.ones(3, 70))

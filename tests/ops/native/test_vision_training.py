"""A residual network trains on the card, and nothing of it falls back."""

import copy

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import make_tensor
from torch import nn

pytestmark = pytest.mark.usefixtures("no_fallbacks")


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(inner)) + self.shortcut(x))


def residual_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_training_step_agrees_with_float64(compiled):
    model = residual_network()
    reference = copy.deepcopy(model).double()
    ours = copy.deepcopy(model).to("spyre")
    images = make_tensor(4, 3, 24, 24, dtype=torch.float32)
    labels = torch.arange(4)
    F.cross_entropy(reference(images.double()), labels).backward()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    run = torch.compile(ours, dynamic=False) if compiled else ours
    loss = F.cross_entropy(run(images.to("spyre")), labels.to("spyre"))
    loss.backward()
    for one, other in zip(ours.parameters(), reference.parameters(), strict=True):
        # Only rounding: about ten layers, each of which divides by a standard deviation.
        error = (one.grad.cpu().double() - other.grad).norm() / other.grad.norm()
        assert error < 2.0**-15
    for one, other in zip(ours.buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(one.cpu().double(), other.double(), rtol=2.0**-16, atol=2.0**-16)
    optimizer.step()
    assert F.cross_entropy(run(images.to("spyre")), labels.to("spyre")) < loss


def test_half_precision_predictions():
    model = residual_network().eval()
    images = make_tensor(2, 3, 24, 24)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(images.double())
        actual = model.half().to("spyre")(images.to("spyre"))
    # SEN169 has nine fraction bits; each of about ten layers loses part of an ulp.
    error = (actual.cpu().double() - expected).norm() / expected.norm()
    assert error < 2.0**-6

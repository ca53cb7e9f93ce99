"""LSTMs and GRUs on the card, with their gradients, against the CPU in float64."""

import copy

import pytest
import torch
from torch import nn

# A few dozen roundings to 24 bits, in a row.
CLOSE = 2.0**-20
NETS = {
    "lstm": lambda: nn.LSTM(20, 36, num_layers=2, batch_first=True),
    "lstm without bias": lambda: nn.LSTM(20, 36, bias=False),
    "gru both ways": lambda: nn.GRU(20, 36, bidirectional=True),
    "gru without bias": lambda: nn.GRU(20, 36, bias=False),
}


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NETS)
def test_recurrent_layers_and_gradients_are_native(name, compiled):
    torch.manual_seed(0)
    net, x = NETS[name](), torch.randn(3, 4, 20)
    reference, given = copy.deepcopy(net).double(), x.double().requires_grad_()
    expected, states = reference(given)
    (expected.square().sum() + states[0].sum()).backward()
    net, x = net.to("spyre"), x.to("spyre").requires_grad_()
    before = torch.spyre.counters()["fallbacks"]
    actual, states = (torch.compile(net) if compiled else net)(x)
    (actual.square().sum() + states[0].sum()).backward()
    assert torch.spyre.counters()["fallbacks"] == before
    pairs = [(actual, expected), (x.grad, given.grad)]
    pairs += [
        (ours.grad, theirs.grad)
        for ours, theirs in zip(net.parameters(), reference.parameters(), strict=True)
    ]
    for ours, theirs in pairs:
        error = (ours.detach().cpu().double() - theirs.detach()).norm()
        assert error <= CLOSE * theirs.detach().norm()


def test_half_precision_cell_takes_few_launches():
    """One for the states, and one for each of the gates that the gradient needs."""
    generator = torch.Generator().manual_seed(0)
    gates, state = (torch.randn(2, count, generator=generator) for count in (256, 64))
    cell = torch.ops.aten._thnn_fused_lstm_cell
    expected = cell(gates, gates, state)
    given = [tensor.half().to("spyre") for tensor in (gates, gates, state)]
    cell(*given)
    before = torch.spyre.counters()
    actual = cell(*given)
    after = torch.spyre.counters()
    assert after["fallbacks"] == before["fallbacks"]
    assert after["launches"] - before["launches"] <= 5
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.cpu().float(), theirs, rtol=0, atol=2.0**-6)

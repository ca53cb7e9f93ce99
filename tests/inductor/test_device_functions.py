"""Functions of `torch.spyre` in compiled functions: streams, events, random states, contexts."""

import pytest
import torch
from torch.testing._utils import freeze_rng_state


def on_a_stream(x):
    with torch.spyre.stream(torch.spyre.Stream()):
        y = x * 2
    torch.spyre.synchronize()
    return y + 1


def with_an_event(x):
    event = torch.spyre.Event()
    event.record()
    y = x + 1
    event.synchronize()
    return y


def with_a_restored_state(x):
    state = torch.spyre.get_rng_state()
    first = torch.rand(4, device=x.device)
    torch.spyre.set_rng_state(state)
    return x + torch.rand(4, device=x.device) - first


def with_a_frozen_state(x):
    with freeze_rng_state():
        y = x + torch.rand(4, device=x.device)
    return y * 2


def with_a_forked_generator(x):
    with torch.random.fork_rng(devices=[0], device_type="spyre"):
        torch.manual_seed(3)
        y = x + torch.rand(4, device=x.device)
    return y


def with_counters(x):
    return x + (torch.spyre.memory_allocated() > 0) + torch.spyre.current_device()


@pytest.mark.parametrize(
    "function",
    [
        on_a_stream,
        with_an_event,
        with_a_restored_state,
        with_a_frozen_state,
        with_a_forked_generator,
        with_counters,
    ],
)
def test_a_compiled_function_computes_what_the_eager_one_does(function):
    torch._dynamo.reset()
    x = torch.arange(4.0).to("spyre")
    torch.spyre.manual_seed(1)
    expected = function(x)
    torch.spyre.manual_seed(1)
    assert torch.equal(torch.compile(function)(x), expected)

"""Functions of `torch.spyre` in compiled functions: streams, events, random states, contexts."""

import re

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.testing._utils import freeze_rng_state


def on_a_stream(x):
    with torch.spyre.stream(torch.spyre.Stream()):
        y = x * 2
    torch.spyre.synchronize()
    return y + 1


def between_waits_for_streams(x):
    side, main = torch.spyre.Stream(), torch.spyre.current_stream()
    y = x + 1
    side.wait_stream(main)
    with side:
        z = y * 2
    main.wait_stream(side)
    return z - 3


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
        between_waits_for_streams,
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


def test_waits_for_streams_keep_their_place_in_one_graph():
    side, main = torch.spyre.Stream(), torch.spyre.current_stream()

    def function(x):
        y = x + 1
        side.wait_stream(main)
        with side:
            z = y * 2
        main.wait_stream(side)
        return z - 3

    x = torch.arange(4.0).to("spyre")
    result, (code,) = run_and_get_code(torch.compile(function, fullgraph=True), x)
    assert result.tolist() == [-1.0, 1.0, 3.0, 5.0]
    call = code[code.index("def call") :]
    steps = re.findall(r"fused_(\w+)_\d\.run|^ *(with \w+)|streams\.(wait_stream)\.", call, re.M)
    assert ["".join(step) for step in steps] == [
        "with nullcontext",
        "add",
        "wait_stream",
        "with get_external_object_by_index",
        "mul",
        "with nullcontext",
        "wait_stream",
        "sub",
    ]

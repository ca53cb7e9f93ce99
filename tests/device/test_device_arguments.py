"""Functions that accept a device, a stream or an event: accepted arguments and errors."""

import inspect
import os
import subprocess
import sys

import pytest
import torch

from torch_spyre.model_utils import load_model_to_spyre

spyre = torch.spyre

# Calls with one device.
ENTRY_POINTS = {
    "set_device": spyre.set_device,
    "get_device_properties": spyre.get_device_properties,
    "get_device_name": spyre.get_device_name,
    "get_device_capability": spyre.get_device_capability,
    "synchronize": spyre.synchronize,
    "Stream": spyre.Stream,
    "current_stream": spyre.current_stream,
    "default_stream": spyre.default_stream,
    "memory_allocated": spyre.memory_allocated,
    "max_memory_allocated": spyre.max_memory_allocated,
    "memory_reserved": spyre.memory_reserved,
    "max_memory_reserved": spyre.max_memory_reserved,
    "memory_stats": spyre.memory_stats,
    "memory_summary": spyre.memory_summary,
    "memory_snapshot": spyre.memory_snapshot,
    "mem_get_info": spyre.mem_get_info,
    "reset_peak_memory_stats": spyre.reset_peak_memory_stats,
    "reset_accumulated_memory_stats": spyre.reset_accumulated_memory_stats,
    "get_per_process_memory_fraction": spyre.get_per_process_memory_fraction,
    "set_per_process_memory_fraction": lambda d: spyre.set_per_process_memory_fraction(1, d),
    "initial_seed": spyre.initial_seed,
    "manual_seed": lambda device: spyre.manual_seed(1, device),
    "get_rng_state": spyre.get_rng_state,
    "set_rng_state": lambda device: spyre.set_rng_state(spyre.get_rng_state(), device),
    "can_device_access_peer": lambda device: spyre.can_device_access_peer(device, 0),
    "device": lambda device: spyre.device(device).__enter__(),
    "Module.spyre": lambda device: torch.nn.Linear(2, 2).spyre(device),
    "load_model_to_spyre": lambda device: load_model_to_spyre(torch.nn.Linear(2, 2), device=device),
}
CALLS = pytest.mark.parametrize("call", ENTRY_POINTS.values(), ids=ENTRY_POINTS)


@pytest.mark.parametrize(
    "device",
    [None, 0, "spyre", "spyre:0", torch.device("spyre"), torch.device("spyre:0")],
    ids=repr,
)
@CALLS
def test_every_form_of_a_device_is_accepted(call, device):
    call(device)


@CALLS
def test_the_device_of_a_stream_is_a_device(call):
    call(spyre.Stream().device)


@pytest.mark.parametrize(
    ("device", "error", "says"),
    [
        (1.5, TypeError, "index of a card or None, got a float"),
        (True, TypeError, "index of a card or None, got a bool"),
        ([0], TypeError, "index of a card or None, got a list"),
        (torch.ones(1), TypeError, "index of a card or None, got a Tensor"),
        ("gpu", RuntimeError, "'gpu' is not a device: a card is 'spyre'"),
        ("spyre:x", RuntimeError, "'spyre:x' is not a device: a card is 'spyre'"),
        ("", RuntimeError, "'' is not a device"),
        ("cpu", ValueError, "expected a spyre device, got cpu"),
        (torch.device("cpu"), ValueError, "expected a spyre device, got cpu"),
        (63, RuntimeError, r"Device index 63 out of range \[0, 1\)"),
        ("spyre:63", RuntimeError, r"Device index 63 out of range \[0, 1\)|63"),
    ],
    ids=repr,
)
@CALLS
def test_error_names_an_invalid_argument(call, device, error, says):
    with pytest.raises(error, match=says):
        call(device)


def test_all_functions_with_a_device_are_tested_here():
    def takes_device(function):
        try:
            return "device" in inspect.signature(function).parameters
        except (TypeError, ValueError):
            return False

    public = {name: getattr(spyre, name) for name in spyre.__all__}
    assert {name for name, value in public.items() if takes_device(value)} <= ENTRY_POINTS.keys()


# --- Streams and events ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [spyre.Event, lambda: torch.Event("spyre")], ids=["ours", "torch"])
def test_a_stream_records_events_of_both_kinds(make):
    stream, event = spyre.Stream(), make()
    assert stream.record_event(event) is event
    stream.wait_event(event)
    event.synchronize()
    assert event.query()


def test_a_stream_records_a_new_event_by_default_also_of_another_card():
    code = """
import torch
stream = torch.spyre.Stream(1)
event = stream.record_event()
assert type(event) is torch.spyre.Event
torch.spyre.Stream(0).wait_event(event)
event.synchronize()
print(event.device, torch.spyre.current_device())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"AIU_WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["spyre:1", "0"], done.stderr


STREAM_CALLS = {
    "stream": spyre.stream,
    "set_stream": spyre.set_stream,
    "wait_stream": lambda stream: spyre.Stream().wait_stream(stream),
    "record": lambda stream: spyre.Event().record(stream),
    "wait": lambda stream: spyre.Event().wait(stream),
}


@pytest.mark.parametrize("call", STREAM_CALLS.values(), ids=STREAM_CALLS)
def test_only_streams_of_a_card_are_taken_for_one(call):
    for wrong in (3, "spyre", torch.device("spyre"), torch.ones(1)):
        with pytest.raises(TypeError, match=f"of a card, got a {type(wrong).__name__}"):
            call(wrong)
    with pytest.raises(ValueError, match="expected a stream of a card, got one of cpu"):
        call(torch.Stream("cpu"))
    call(spyre.default_stream())
    call(torch.accelerator.current_stream())


def test_only_events_are_taken_for_one():
    stream = spyre.Stream()
    for wrong in (3, "event", stream):
        with pytest.raises(TypeError, match="expected an event, got a"):
            stream.wait_event(wrong)
        with pytest.raises(TypeError, match="expected an event, got a"):
            stream.record_event(wrong)


def test_a_stream_of_another_device_cannot_be_wrapped():
    with pytest.raises(ValueError, match="expected a stream of a card, got one of cpu"):
        spyre.Stream(stream_id=0, device_index=0, device_type=0)


def test_the_device_of_a_stream_equals_devices_and_hashes_as_they_do():
    device = spyre.Stream().device
    assert device == torch.device("spyre:0") and torch.device("spyre:0") == device
    assert device == spyre.Stream().device and device != torch.device("cpu")
    assert {torch.device("spyre:0"): "found"}[device] == "found"
    # Hashed as torch.device, not as a string.
    assert device != "spyre:0" and torch.device("spyre:0") != "spyre:0"
    assert (device.type, device.index, device()) == ("spyre", 0, torch.device("spyre:0"))
    assert torch.ones(1, device=device).device == device

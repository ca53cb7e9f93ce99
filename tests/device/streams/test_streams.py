"""Streams and events: identity, the current stream, device time and errors."""

import threading
import warnings

import pytest
import torch

from torch_spyre import _C

Event, Stream, stream = torch.spyre.Event, torch.spyre.Stream, torch.spyre.stream

pytestmark = pytest.mark.usefixtures("default_stream_stays_current")


def timed_event():
    return torch.Event("spyre", enable_timing=True)


# --- Identity -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "reported", "ids"),
    [(0, 0, range(1, 33)), (-1, -1, range(33, 65)), (1, -1, range(33, 65))],
)
def test_priority_selects_a_round_robin_pool(priority, reported, ids):
    streams = [Stream(priority=priority) for _ in range(33)]
    assert {s.priority for s in streams} == {reported}
    assert [s.id for s in streams] == [s.stream_id for s in streams]
    assert {s.id for s in streams} == set(ids)
    assert streams[0] == streams[32] and streams[0] is not streams[32]
    assert len(set(streams)) == 32


def test_equality_and_hash_are_of_id_and_device():
    first, second = Stream(), Stream()
    same = torch.Stream(stream_id=first.id, device_index=0, device_type=first.device_type)
    assert first == same and hash(first) == hash(same)
    assert first != second and first != torch.spyre.default_stream()
    assert torch.spyre.default_stream("spyre:0") == torch.spyre.default_stream(0)
    assert isinstance(torch.spyre.current_stream("spyre"), Stream)
    assert torch.Stream(device="spyre").device_index == 0


def test_a_stream_shows_its_device_and_id():
    one = Stream(device="spyre:0")
    assert repr(one) == f"<torch_spyre.Stream device=0 id={one.id}>"
    assert one.device() == torch.device("spyre", 0)
    assert one.device == torch.device("spyre", 0) and one.device.type == "spyre"
    assert torch.spyre.default_stream().id == 0 and torch.spyre.default_stream().priority == 0


def test_stream_id_outside_the_pools_raises():
    kind = torch.spyre.default_stream().device_type
    for bad in (65, 99, -1):
        with pytest.raises(RuntimeError, match=f"no flex handle for stream id {bad}"):
            Stream(stream_id=bad, device_index=0, device_type=kind).query()


def test_invalid_stream_does_not_become_current():
    kind = torch.spyre.default_stream().device_type
    for bad in (65, 99, -1):
        one = Stream(stream_id=bad, device_index=0, device_type=kind)
        for use in (lambda one=one: torch.spyre.set_stream(one), lambda one=one: one.__enter__()):
            with pytest.raises(RuntimeError, match=f"stream id {bad}: a card has streams 0 to 64"):
                use()
    assert torch.spyre.current_stream() == torch.spyre.default_stream()


# --- The current stream ---------------------------------------------------------------------------


def test_contexts_nest_and_unwind_also_after_errors():
    outer, inner = Stream(), Stream(priority=-1)
    default = torch.spyre.current_stream()
    with outer:
        assert torch.spyre.current_stream() == outer
        with pytest.raises(KeyError), stream(inner):
            assert torch.spyre.current_stream() == inner == torch.accelerator.current_stream()
            with stream(outer), stream(None):
                assert torch.spyre.current_stream() == outer
            assert torch.spyre.current_stream() == inner
            raise KeyError
        assert torch.spyre.current_stream() == outer
    assert torch.spyre.current_stream() == default
    assert stream(outer) is outer


def test_a_stream_may_be_entered_twice_and_set_for_good():
    one = Stream()
    with one:
        with one:
            assert torch.spyre.current_stream() == one
        assert torch.spyre.current_stream() == one
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    torch.spyre.set_stream(one)
    assert torch.spyre.current_stream() == one
    torch.spyre.set_stream(torch.spyre.default_stream())


def test_current_stream_is_thread_local():
    seen = []

    def work():
        seen.append(torch.spyre.current_stream().id)
        torch.spyre.set_stream(Stream(priority=-1))
        seen.append(torch.spyre.current_stream().priority)

    with Stream() as mine:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert torch.spyre.current_stream() == mine
    assert seen == [0, -1]


# --- Errors and load ------------------------------------------------------------------------------

FAILING_COPY = """
import torch
bad = torch.full((1 << 16,), 2**40).pin_memory()
good = torch.arange(1 << 16).pin_memory()
one = torch.spyre.Stream()
event = torch.spyre.Event()
def blocking_copy():
    with one:
        torch.ones(2).to("spyre")
for wait in (WAITS):
    with one:
        bad.to("spyre", non_blocking=True)
        card = good.to("spyre", non_blocking=True)
        event.record()
    try:
        wait()
    except RuntimeError as error:
        assert "do not fit the 32 bits" in str(error), error
    else:
        raise AssertionError(f"{wait} gave no error")
    torch.spyre.synchronize()
    assert one.query() and torch.equal(card.cpu(), good)
print("fine")
"""


@pytest.mark.parametrize(
    "waits",
    [
        "one.synchronize, torch.spyre.synchronize, torch.accelerator.synchronize, blocking_copy",
        "event.synchronize,",
    ],
    ids=["stream", "event"],
)
def test_error_of_queued_work_is_raised_once_and_the_stream_stays_usable(waits, run):
    code = FAILING_COPY.replace("WAITS", waits)
    assert run(code, TORCH_SPYRE_INT64_OVERFLOW="error") == ["fine"]


def test_a_stream_is_idle_after_its_last_event_has_been_waited_for():
    one, host = Stream(), torch.ones(8).pin_memory()
    for _ in range(500):
        with one:
            host.to("spyre", non_blocking=True)
        one.record_event().synchronize()
        assert one.query()


@pytest.mark.parametrize(
    "wait",
    [
        lambda one, event: one.synchronize(),
        lambda one, event: event.synchronize(),
        lambda one, event: torch.spyre.synchronize(),
        lambda one, event: torch.accelerator.synchronize(),
        lambda one, event: _C.current_stream().synchronize(),
    ],
    ids=["stream", "event", "device", "accelerator", "binding"],
)
def test_a_warning_of_queued_work_reaches_python_at_the_next_synchronisation(wait, capfd):
    torch.tensor([1]).to("spyre")  # the warning about int64 is emitted once
    bad = torch.full((1 << 10,), 2**40).pin_memory()
    with Stream() as one, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            bad.to("spyre", non_blocking=True)
        event = one.record_event()
        wait(one, event)
        torch.spyre.synchronize()
    assert [str(warning.message).split()[0] for warning in seen] == ["3072"]
    assert "do not fit the 32 bits" in str(seen[0].message)
    assert capfd.readouterr().err == ""


def test_warning_of_queued_work_can_be_an_error():
    bad = torch.full((1 << 10,), 2**40).pin_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bad.to("spyre", non_blocking=True)
        with pytest.raises((UserWarning, RuntimeError), match="do not fit the 32 bits"):
            torch.spyre.synchronize()
    torch.spyre.synchronize()


def test_waiting_for_a_stream_never_waits_for_pythons_lock(run):
    # The queue holds the last references to storages that Python has seen, and the calls below
    # wait for the queue while they hold Python's lock.
    code = """
import copy, torch
big = torch.ones(16 << 20, dtype=torch.float16).pin_memory()
card = torch.ones(64, device="spyre")
one, other = torch.spyre.Stream(), torch.spyre.Stream()
def set_element():
    card[0] = 2
def fill_the_queue(call):
    for _ in range(1000):
        call()
for wait in (
    set_element,
    lambda: copy.deepcopy(card),
    lambda: card.untyped_storage().cpu(),
    lambda: fill_the_queue(one.record_event),
    lambda: fill_the_queue(lambda: one.wait_event(event)),
    lambda: fill_the_queue(lambda: event.wait(one)),
):
    with other:
        for _ in range(4):
            big.to("spyre", non_blocking=True)
    event = other.record_event()
    one.wait_event(event)
    with one:
        for _ in range(100):
            host = torch.ones(4).pin_memory()
            host.untyped_storage()
            host.to("spyre", non_blocking=True)
            del host
        wait()
    torch.spyre.synchronize()
print("fine")
"""
    assert run(code) == ["fine"]

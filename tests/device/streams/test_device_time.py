"""Device time: units of the card work side by side, and each does one thing at a time."""

import time

import pytest
import torch

from torch_spyre import knobs
from torch_spyre.cards import load_card

Event, Stream = torch.spyre.Event, torch.spyre.Stream

pytestmark = pytest.mark.usefixtures("default_stream_stays_current")
CONSTANTS = load_card("spyre").timing
LAUNCH_MS = float(CONSTANTS.LAUNCH_US) / 1e3


def timed_event():
    return torch.Event("spyre", enable_timing=True)


def link_ms(num_bytes):
    """Return the time of a copy over the host link in ms."""
    return float(CONSTANTS.PCIE_LAT_US) / 1e3 + num_bytes / float(CONSTANTS.PCIE_GBS) / 1e6


class Kernel:
    """An elementwise kernel that is timed and not executed."""

    def __init__(self, size=2048):
        self.tensors = [
            torch.empty(size, size, dtype=torch.float16, device="spyre") for _ in range(3)
        ]
        self()
        torch.spyre.synchronize()
        before = torch.spyre.counters()
        self()
        after = torch.spyre.counters()
        change = {name: after[name] - before[name] for name in after}
        self.device_ms = change["device_time_ps"] / 1e9
        self.memory_gbs = (change["ddr_read_bytes"] + change["ddr_write_bytes"]) / (
            self.device_ms * 1e6
        )

    def __call__(self):
        first, second, result = self.tensors
        with knobs.override(SPYRE_EMU_MODE="timing"):
            torch.add(first, second, out=result)


def elapsed_on_streams(*calls):
    """Return the time until each call on a stream of its own has ended, and until all have."""
    torch.spyre.synchronize()
    start, joined = timed_event(), timed_event()
    start.record()
    ends = []
    for call in calls:
        with Stream():
            call()
            ends.append(timed_event())
            ends[-1].record()
    for end in ends:
        torch.spyre.current_stream().wait_event(end)
    joined.record()
    torch.spyre.synchronize()
    return [start.elapsed_time(event) for event in (*ends, joined)]


# --- Copies over the host link --------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 64, 1 << 16, 1 << 22])
def test_a_copy_takes_the_latency_of_the_host_link_and_its_bytes_over_the_rate(count):
    host = torch.ones(count, dtype=torch.float32).pin_memory()
    for non_blocking in (False, True):
        start, middle, end = timed_event(), timed_event(), timed_event()
        start.record()
        card = host.to("spyre", non_blocking=non_blocking)
        middle.record()
        card.cpu()
        end.record()
        end.synchronize()
        expected = link_ms(host.nbytes)
        assert start.elapsed_time(middle) == pytest.approx(expected, rel=1e-6)
        assert start.elapsed_time(end) == pytest.approx(2 * expected, rel=1e-6)
        assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_copies_in_one_direction_share_the_link_and_those_in_the_other_do_not(pinned):
    card = torch.empty_like(pinned[0], device="spyre")

    def copy_to_card():
        card.copy_(pinned[0], non_blocking=True)

    def copy_to_host():
        pinned[1].copy_(card, non_blocking=True)

    once = link_ms(pinned[0].nbytes)
    first, second, back, joined = elapsed_on_streams(copy_to_card, copy_to_card, copy_to_host)
    assert [first, second, back] == pytest.approx([once, 2 * once, once])
    assert joined == second


def test_events_of_torch_spyre_give_elapsed_time():
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    torch.ones(1 << 16).to("spyre")
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0


# --- Kernels --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("streams", [2, 4])
def test_kernels_of_several_streams_run_one_after_another(streams):
    kernel = Kernel()
    *ends, joined = elapsed_on_streams(*[kernel] * streams)
    expected = [LAUNCH_MS + (index + 1) * kernel.device_ms for index in range(streams)]
    assert ends == pytest.approx(expected)
    assert joined == ends[-1]


@pytest.mark.usefixtures("kernels")
def test_copies_on_the_card_and_kernels_share_the_cores():
    kernel = Kernel()
    source, target, _ = kernel.tensors
    before = torch.spyre.counters()["device_time_ps"]
    target.copy_(source)
    copy_ms = (torch.spyre.counters()["device_time_ps"] - before) / 1e9
    _, copied, _ = elapsed_on_streams(kernel, lambda: target.copy_(source))
    assert copied == pytest.approx(LAUNCH_MS + kernel.device_ms + copy_ms)


@pytest.mark.usefixtures("kernels")
def test_a_copy_over_the_host_link_overlaps_with_a_kernel(pinned):
    kernel, card = Kernel(), torch.empty_like(pinned[0], device="spyre")
    computed, copied, joined = elapsed_on_streams(
        kernel, lambda: card.copy_(pinned[0], non_blocking=True)
    )
    assert computed == pytest.approx(LAUNCH_MS + kernel.device_ms)
    assert copied == pytest.approx(LAUNCH_MS + link_ms(pinned[0].nbytes))
    assert joined == max(computed, copied)


@pytest.mark.usefixtures("kernels")
def test_work_that_is_submitted_later_gets_the_memory_bandwidth_that_is_left(pinned):
    kernel, card = Kernel(), torch.empty_like(pinned[0], device="spyre")
    pinned_bytes = pinned[0].nbytes
    calls = (
        lambda: card.copy_(pinned[0], non_blocking=True),
        lambda: pinned[1].copy_(card, non_blocking=True),
        kernel,
    )
    to_card, to_host, computed, _ = elapsed_on_streams(*calls)
    assert to_card == to_host == pytest.approx(link_ms(pinned_bytes))
    left_gbs = float(CONSTANTS.DDR_PEAK) - 2 * pinned_bytes / link_ms(pinned_bytes) / 1e6
    assert left_gbs < kernel.memory_gbs
    slowdown = kernel.memory_gbs / left_gbs
    assert computed == pytest.approx(LAUNCH_MS + kernel.device_ms * slowdown, rel=1e-6)


# --- The host -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
def test_a_launch_takes_time_of_the_host_and_not_of_the_card():
    kernel = Kernel(size=64)
    assert kernel.device_ms < LAUNCH_MS
    torch.spyre.synchronize()
    start, end = timed_event(), timed_event()
    start.record()
    for _ in range(10):
        kernel()
    end.record()
    torch.spyre.synchronize()
    assert start.elapsed_time(end) == pytest.approx(10 * LAUNCH_MS + kernel.device_ms)


@pytest.mark.usefixtures("kernels")
def test_a_call_of_a_compiled_graph_launches_all_its_kernels_at_once():
    tensors = [torch.empty(512, 1024, dtype=torch.float16, device="spyre") for _ in range(2)]
    torch._dynamo.reset()
    concatenate = torch.compile(lambda x, y: torch.cat([x, y]))
    with knobs.override(SPYRE_EMU_MODE="timing"):
        concatenate(*tensors)
        torch.spyre.synchronize()
        start, end, before = timed_event(), timed_event(), torch.spyre.counters()
        start.record()
        concatenate(*tensors)
        end.record()
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    assert after["launches"] - before["launches"] == 2
    device_ms = (after["device_time_ps"] - before["device_time_ps"]) / 1e9
    assert start.elapsed_time(end) == pytest.approx(LAUNCH_MS + device_ms)


@pytest.mark.parametrize("wait", ["event", "stream", "device", "event query", "stream query"])
def test_work_after_a_host_wait_is_later_in_device_time(pinned, wait):
    one, two = Stream(), Stream()
    done, later = timed_event(), timed_event()
    with one:
        pinned[0].to("spyre", non_blocking=True)
        done.record()
    if wait == "event":
        done.synchronize()
    elif wait == "stream":
        one.synchronize()
    elif wait == "device":
        torch.spyre.synchronize()
    else:
        while not (done if wait == "event query" else one).query():
            time.sleep(0)
    later.record(two)
    later.synchronize()
    assert done.elapsed_time(later) >= 0


def test_events_without_timing_or_record_raise_on_elapsed_time():
    recorded, untimed, never = timed_event(), torch.Event("spyre"), timed_event()
    for event in (recorded, untimed):
        event.record()
        event.synchronize()
    for other in (untimed, never):
        with pytest.raises((RuntimeError, ValueError), match=r"timing|record"):
            recorded.elapsed_time(other)
        with pytest.raises((RuntimeError, ValueError), match=r"timing|record"):
            other.elapsed_time(recorded)
    with pytest.raises(RuntimeError, match="cannot be shared between processes"):
        Event(interprocess=True)

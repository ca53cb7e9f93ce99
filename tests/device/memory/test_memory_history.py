"""The history of device memory: call stacks, events, snapshots, and the tools that read them."""

import pickle
import sys
import time

import pytest
import torch
from memory_helpers import GIB, MIB, empty
from torch.cuda import _memory_viz

from torch_spyre.memory_snapshots.sites import site_of
from torch_spyre.memory_snapshots.snapshot import Frame, read_snapshot
from torch_spyre.memory_snapshots.timeline import timeline

memory = torch.spyre.memory


@pytest.fixture(autouse=True)
def stopped():
    """Record nothing before and after a test."""
    memory._record_memory_history(None)
    yield
    memory._record_memory_history(None)


@pytest.fixture
def recorded():
    memory._record_memory_history()


def events(action=None):
    torch.spyre.synchronize()
    (trace,) = memory._snapshot()["device_traces"]
    return [event for event in trace if action in (None, event["action"])]


def allocate_here(count):
    return empty(count)


def segment_of(tensor):
    address = tensor.untyped_storage().data_ptr()
    (segment,) = [entry for entry in memory.memory_snapshot() if entry["address"] == address]
    return segment


# --- Snapshots ------------------------------------------------------------------------------------


def test_a_snapshot_has_a_segment_for_each_allocation():
    tensor, storage = empty(1000), torch.UntypedStorage(130, device="spyre")
    segment = segment_of(tensor)
    assert segment["device"] == 0 and segment["size"] == segment["total_size"] == 2048
    assert segment["segment_type"] == "small" and segment["stack"] == []
    (block,) = segment["blocks"]
    assert (block["size"], block["requested_size"]) == (2048, tensor.untyped_storage().nbytes())
    assert (block["address"], block["state"]) == (segment["address"], "active_allocated")
    snapshot = memory.memory_snapshot()
    assert sum(entry["allocated_size"] for entry in snapshot) == memory.memory_allocated()
    addresses = [entry["address"] for entry in snapshot]
    assert addresses == sorted(addresses)
    assert 130 in [entry["requested_size"] for entry in snapshot] and storage.nbytes() == 130


@pytest.mark.usefixtures("recorded")
def test_the_stack_of_an_allocation_is_in_the_snapshot():
    tensor = allocate_here(MIB)
    segment = segment_of(tensor)
    assert segment["segment_type"] == "large"
    assert any(line.endswith("in allocate_here") for line in segment["stack"])
    assert segment["frames"] == segment["blocks"][0]["frames"]
    names = [frame["name"] for frame in segment["frames"]]
    assert names.index("allocate_here") < names.index(sys._getframe().f_code.co_name)
    assert memory._allocation_traceback(segment["address"]) == segment["frames"]
    assert memory._allocation_traceback(1) is None


@pytest.mark.usefixtures("kernels", "recorded")
def test_outputs_of_a_compiled_graph_have_the_lines_that_compute_them():
    def function(x):
        doubled = x * 2
        total = x.sum(0)
        return doubled, total

    first = function.__code__.co_firstlineno
    outputs = torch.compile(function)(empty(70 * 128).view(70, 128))
    for output, line in zip(outputs, (first + 1, first + 2), strict=True):
        assert site_of(_stack(segment_of(output))).startswith(f"{__file__}:{line} in ")


def _stack(segment):
    frames = segment["frames"]
    return tuple(Frame(frame["filename"], frame["line"], frame["name"]) for frame in frames)


@pytest.mark.usefixtures("recorded")
def test_events_are_an_allocation_a_request_and_a_completion():
    before = time.time()
    tensor = empty(1000)
    address = tensor.untyped_storage().data_ptr()
    del tensor
    actions = [event for event in events() if event.get("addr") == address]
    assert [event["action"] for event in actions] == [
        "segment_alloc", "alloc", "free_requested", "free_completed", "segment_free",
    ]  # fmt: skip
    assert {event["size"] for event in actions} == {2048}
    times = [event["time_us"] for event in actions]
    assert times == sorted(times) and before - 1 <= times[0] / 1e6 <= time.time() + 1
    assert all(event["frames"] for event in actions[:3])


@pytest.mark.usefixtures("recorded")
def test_events_have_the_stream_and_the_device_time():
    stream = torch.spyre.Stream()
    first = empty(1000)
    with stream:
        second = empty(1000)
        second.fill_(1)
    stream.synchronize()
    third = empty(1000)
    by_address = {event["addr"]: event for event in events("alloc")}
    held = [by_address[t.untyped_storage().data_ptr()] for t in (first, second, third)]
    assert [event["stream"] for event in held] == [0, stream.stream_id, 0]
    device_times = [event["device_time_ps"] for event in held]
    # The host has waited for the fill, which takes device time.
    assert device_times[0] <= device_times[1] < device_times[2]


def test_nothing_is_recorded_unless_requested():
    tensor = empty(1000)
    assert events() == [] and segment_of(tensor)["frames"] == []
    memory._record_memory_history()
    assert segment_of(tensor)["frames"] == []
    memory._record_memory_history(enabled=None)
    assert events() == []


def test_state_keeps_stacks_of_live_memory_and_no_events():
    memory._record_memory_history("state")
    tensor = empty(1000)
    assert segment_of(tensor)["frames"] and events() == []


@pytest.mark.parametrize(
    ("context", "of_live", "of_allocation", "of_release"),
    [(None, 0, 0, 0), ("state", 1, 0, 0), ("alloc", 1, 1, 0), ("all", 1, 1, 1)],
)
def test_the_context_says_which_stacks_are_recorded(context, of_live, of_allocation, of_release):
    memory._record_memory_history(context=context)
    tensor, other = empty(1000), empty(64)
    del other
    assert bool(segment_of(tensor)["frames"]) == of_live
    assert {bool(event["frames"]) for event in events("alloc")} == {bool(of_allocation)}
    assert {bool(event["frames"]) for event in events("free_requested")} == {bool(of_release)}


def test_the_oldest_events_are_dropped_beyond_the_maximum():
    memory._record_memory_history(max_entries=4, skip_actions=["segment_alloc", "segment_free"])
    tensors = [empty(64 * count) for count in range(1, 7)]
    assert [event["size"] for event in events("alloc")] == [3 * 128, 4 * 128, 5 * 128, 6 * 128][1:]
    assert len(events()) == 4 and len(tensors) == 6


def test_actions_can_be_skipped():
    memory._record_memory_history(skip_actions=["free_requested", "segment_free", "snapshot"])
    empty(64)
    assert {event["action"] for event in events()} == {"segment_alloc", "alloc", "free_completed"}


def test_a_history_is_cleared_on_request():
    memory._record_memory_history(skip_actions=["snapshot"])
    empty(64)
    memory._record_memory_history(skip_actions=["snapshot"])
    assert events("alloc")
    memory._record_memory_history(clear_history=True, skip_actions=["snapshot"])
    assert events() == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"enabled": "some"}, "enabled='some'"),
        ({"context": "none"}, "context='none'"),
        ({"stacks": "cpp"}, "stacks='cpp'"),
        ({"skip_actions": ["allocate"]}, "skip_actions='allocate'"),
        ({"max_entries": -1}, "max_entries must not be negative"),
    ],
)
def test_invalid_arguments_are_errors(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        memory._record_memory_history(**arguments)


def test_frames_of_cpp_are_recorded_on_request():
    memory._record_memory_history(stacks="all")
    names = " ".join(frame["name"] for frame in segment_of(empty(64))["frames"])
    assert "allocate" in names and "at::" in names


def test_cards_have_histories_of_their_own(run):
    shown = run(
        """
import torch
memory = torch.spyre.memory
memory._record_memory_history(skip_actions=["snapshot", "segment_alloc"])
a = torch.empty(64, dtype=torch.float16, device="spyre:1")
snapshot = memory._snapshot()
print(len(snapshot["device_traces"][0]), len(snapshot["device_traces"][1]))
print([segment["device"] for segment in snapshot["segments"]])
print(len(memory._snapshot(1)["device_traces"]), len(memory._snapshot(0)["segments"]))
""",
        AIU_WORLD_SIZE="2",
    )
    assert shown == ["0", "1", "[1]", "2", "0"]


# --- Out of memory --------------------------------------------------------------------------------


@pytest.mark.usefixtures("recorded")
def test_an_error_says_which_lines_hold_the_memory():
    held = [allocate_here(2 * GIB) for _ in range(2)]
    other = torch.empty(GIB, dtype=torch.float16, device="spyre")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        empty(60 * GIB)
    message = str(caught.value)
    assert "by the line that allocated it:" in message
    lines = message.partition("allocated it:\n")[2].splitlines()
    assert lines[0].split()[:4] == ["8.0", "GiB", "2", "x"] and "memory_helpers.py" in lines[0]
    assert lines[1].split()[:4] == ["2.0", "GiB", "1", "x"]
    assert f"{__file__}:" in lines[1] and lines[1].endswith(f"in {_name_of_this_test()}")
    (event,) = events("oom")
    assert event["size"] == 120 * GIB and 0 < event["device_free"] < 112 * GIB
    assert event["frames"] and len(held) == 2 and other.numel() == GIB


def _name_of_this_test():
    return sys._getframe(1).f_code.co_name


def test_an_error_has_no_list_without_a_history():
    with pytest.raises(torch.OutOfMemoryError) as caught:
        empty(60 * GIB)
    assert "\n" not in str(caught.value).partition("Exception raised")[0]


# --- Tools ----------------------------------------------------------------------------------------


@pytest.fixture
def snapshot(tmp_path):
    """Return a snapshot with live, freed and failed allocations, after a way through a file."""
    memory._record_memory_history()
    live = [allocate_here(4 * MIB), empty(64)]
    allocate_here(8 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty(60 * GIB)
    torch.spyre.synchronize()
    path = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(path)
    with path.open("rb") as file:
        content = pickle.load(file)
    content["path"], content["live"] = path, live
    return content


def test_the_text_tools_of_pytorch_read_snapshots(snapshot):
    summary = _memory_viz.segsum(snapshot)
    total = sum(segment["total_size"] for segment in snapshot["segments"])
    assert f"total_reserved: {_memory_viz.Bytes(total)}" in summary
    trace = _memory_viz.trace(snapshot)
    assert "Device 0" in trace and "cudaMalloc(" in trace and "raise OutOfMemoryError" in trace
    for flames in (
        _memory_viz.memory(snapshot, format_flamegraph=str),
        _memory_viz.segments(snapshot, format_flamegraph=str),
    ):
        assert any(
            "allocate_here" in line and line.endswith(f" {8 * MIB}") for line in flames.splitlines()
        )


def test_the_plots_of_pytorch_contain_snapshots(snapshot):
    snapshot = {key: snapshot[key] for key in ("segments", "device_traces")}
    for plot in (
        _memory_viz.trace_plot(snapshot),
        _memory_viz.trace_plot(snapshot, plot_segments=True),
        _memory_viz.segment_plot(snapshot),
    ):
        assert "snapshot.pickle" in plot and len(plot) > 1000
    unfreed = _memory_viz.filter_alloc_free_pairs(snapshot)["device_traces"][0]
    sizes = [event["size"] for event in unfreed if event["action"] == "alloc"]
    assert sizes == [8 * MIB, 128]


def test_our_own_reader_agrees_with_the_statistics(snapshot):
    (card,) = read_snapshot(snapshot["path"])
    history = timeline(card)
    assert history.live_bytes[-1] == memory.memory_allocated()
    assert history.peak_bytes == memory.memory_allocated() + 16 * MIB


def test_the_command_names_the_line(snapshot, spyre):
    code, out, _ = spyre("memory", snapshot["path"])
    assert code == 0 and "memory_helpers.py" in out and "120.0 GiB were requested" in out


def test_a_snapshot_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="cannot write"):
        memory._dump_snapshot(tmp_path / "no" / "file")


# --- Under load -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("recorded")
def test_memory_that_queued_work_uses_is_freed_later(pinned):
    stream, size = torch.spyre.Stream(), 128 * 12345
    card = torch.empty(size, dtype=torch.int8, device="spyre")
    address = card.untyped_storage().data_ptr()
    with stream:
        pinned[0].to("spyre", non_blocking=True)
    card.record_stream(stream)
    del card
    torch.spyre.synchronize()
    actions = [event["action"] for event in events() if event.get("addr") == address]
    assert actions.count("free_requested") == actions.count("free_completed") == 1

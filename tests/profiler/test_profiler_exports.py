"""Exports and tables of profiles, scopes and the clock of the card, and older interfaces."""

import gzip
import json
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from profiles import BOTH, device_events, select, warmed_up
from torch.autograd import DeviceType
from torch.profiler import (
    ExecutionTraceObserver,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

from torch_spyre._inductor.op_table import RECORDS, Kind, category_of
from torch_spyre.profiler.summary import summarize
from torch_spyre.profiler.trace import Clock, load_trace

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture(scope="module")
def x():
    return torch.randn(70, 130).half().to("spyre")


def test_times_of_the_trace_are_those_of_the_events_exactly(x, traced):
    warmed_up(lambda: x + 1)
    with profile(activities=BOTH) as prof:
        x + 1
    trace = traced(prof)
    (event,) = [event for event in prof.events() if event.name == "aten::add"]
    (op,) = [event for event in select(trace, "cpu_op") if event["name"] == "aten::add"]
    start_ns = int(event.time_range.start * 1000) + prof.profiler.kineto_results.trace_start_ns()
    assert (start_ns - trace["baseTimeNanoseconds"]) / 1000 == op["ts"]


def test_scopes_are_shown_in_the_rows_of_the_streams_that_do_their_work(x, traced):
    warmed_up(lambda: ((x + 1) * 2, x.cpu()))
    with profile(activities=BOTH) as prof:
        with record_function("outer"):
            y = x + 1
            with record_function("inner"):
                y * 2
        x.cpu()
    trace = traced(prof)
    annotations = select(trace, "gpu_user_annotation")
    work = {event["name"]: event for event in device_events(trace)}
    assert {event["name"] for event in annotations} == {"outer", "inner"}
    for name, parts in (("outer", ["add", "mul"]), ("inner", ["mul"])):
        shown = [event for event in annotations if event["name"] == name]
        for part in parts:
            kernel = work[f"sdsc_aten_{part}_0"]
            place = (kernel["pid"], kernel["tid"])
            assert any(
                (event["pid"], event["tid"]) == place
                and event["ts"] <= kernel["ts"]
                and event["ts"] + event["dur"] >= kernel["ts"] + kernel["dur"] - 2e-3
                for event in shown
            )
        # Kineto widens annotations by 1 ns on both sides.
        busy = sum(work[f"sdsc_aten_{part}_0"]["dur"] for part in parts)
        assert sum(event["dur"] for event in shown) == pytest.approx(busy, abs=0.01)


def test_the_device_time_of_a_table_counts_kernels_and_copies_once(x):
    warmed_up(lambda: (x + 1).cpu())
    with profile(activities=BOTH) as prof, record_function("scope"):
        (x + 1).cpu()
        torch.spyre.synchronize()
    events = [e for e in prof.events() if e.device_type == DeviceType.PrivateUse1]
    work = [event for event in events if not event.is_user_annotation]
    total = sum(event.self_device_time_total for event in work)
    assert total > 0
    text = re.search(r"Self SPYRE time total: ([\d.]+)us", prof.key_averages().table())[1]
    assert float(text) == pytest.approx(total, abs=0.01)
    assert sum(e.self_device_time_total for e in events if e.name == "scope") == pytest.approx(
        total, abs=0.01
    )


def test_synchronizations_are_points_of_the_streams_that_are_waited_for(x, traced):
    def step():
        side = torch.spyre.Stream()
        with torch.spyre.stream(side):
            x @ x.t()
        event = torch.spyre.Event()
        event.record(side)
        torch.spyre.current_stream().wait_event(event)
        event.synchronize()
        side.synchronize()
        torch.spyre.synchronize()
        return side

    warmed_up(step)
    with profile(activities=BOTH) as prof:
        side = step()
    trace = traced(prof)
    points = select(trace, "cuda_sync")[:4]
    names = ["Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"]
    assert [point["name"] for point in points] == names
    assert [point["tid"] for point in points[:2]] == [0, side.stream_id]
    assert all(point["args"]["wait_on_stream"] == side.stream_id for point in points[:3])
    assert all(point["dur"] == 0 for point in points)
    calls = {call["args"]["correlation"]: call for call in select(trace, "privateuse1_runtime")}
    assert [calls[point["args"]["correlation"]]["name"] for point in points] == [
        "aiuStreamWaitEvent", "aiuScheduleWait", "aiuScheduleWait", "aiuScheduleWait",
    ]  # fmt: skip
    kernel = select(trace, "kernel")[-1]
    end = kernel["args"]["device_begin_ps"] + kernel["args"]["device_time_ps"]
    waits = [point["args"] for point in points]
    # The stream waits for the kernel's end; then the host does, and after that for nothing.
    assert waits[0]["device_begin_ps"] + waits[0]["device_time_ps"] == end
    assert waits[1]["device_begin_ps"] + waits[1]["device_time_ps"] == end
    assert waits[2]["device_time_ps"] == waits[3]["device_time_ps"] == 0


def test_work_has_its_place_on_the_clock_of_the_card(x, tmp_path):
    step = torch.compile(lambda x: F.gelu(x @ x.t()).softmax(-1))
    warmed_up(lambda: [step(x) for _ in range(2)])
    start = torch.spyre.Event(enable_timing=True)
    end = torch.spyre.Event(enable_timing=True)
    with profile(activities=BOTH) as prof:
        start.record()
        for _ in range(5):
            step(x)
        end.record()
    end.synchronize()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = load_trace(path)
    assert trace.clock is Clock.CARD
    previous = 0.0
    for work in trace.work:
        assert work.launch <= work.begin and previous <= work.begin + 1e-6
        previous = work.end
    times = summarize(trace).cards[0].breakdown
    # From the first launch to the last kernel's end, as events measure it.
    assert times.end == pytest.approx(1000 * start.elapsed_time(end), abs=0.01)
    assert times.compute + times.idle == pytest.approx(times.elapsed)
    host = summarize(load_trace(path, Clock.HOST))
    assert host.device_time == pytest.approx(summarize(trace).device_time, rel=1e-3)


def test_cycles_of_a_unit_are_busy_stalled_or_idle(x, traced):
    step = torch.compile(lambda x: F.gelu(x @ x.t()).softmax(-1))
    warmed_up(step, x)
    with profile(activities=BOTH) as prof:
        step(x)
        (x + 1).fill_(0.0)
    work = [event for event in device_events(traced(prof)) if "unit_cycles" in event["args"]]
    assert len(work) >= 3
    for event in work:
        units = event["args"]["unit_cycles"]
        assert set(units) == {"pt", "sfp", "ddr", "lx", "ring"}
        for unit, states in units.items():
            assert all(cycles >= 0 for cycles in states.values())
            assert sum(states.values()) == event["args"]["cycles"], unit
    categories = {event["name"]: event["args"]["op_category"] for event in work}
    assert categories["sdsc_aten_add_0"] == "pointwise"
    assert categories["Memset (Device)"] == "data movement"
    assert "matmul" in categories.values()


def test_every_kind_of_op_is_a_category():
    for kind in Kind:
        names = [name for name, record in RECORDS.items() if record.kind is kind]
        assert all(category_of([name]) == kind.value for name in names)
    assert category_of(["add", "batchmatmul", "sum"]) == "matmul"


def test_ids_of_ops_are_those_of_the_execution_trace(x, traced, tmp_path):
    warmed_up(lambda: x * 2)
    observer = ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "execution.json"))
    with profile(activities=BOTH, execution_trace_observer=observer) as prof:
        x * 2
    ids = {
        event["args"]["Record function id"]: event["name"]
        for event in select(traced(prof), "cpu_op")
    }
    nodes = json.loads((tmp_path / "execution.json").read_text())["nodes"]
    observed = {
        attribute["value"]: node["name"]
        for node in nodes
        for attribute in node["attrs"]
        if attribute["name"] == "rf_id"
    }
    assert "aten::mul" in ids.values()
    assert ids.items() <= observed.items()


def test_compressed_and_tensorboard_exports_can_be_analysed(x, tmp_path):
    warmed_up(lambda: x * 2)
    steps = schedule(wait=0, warmup=1, active=2)
    with profile(
        activities=BOTH,
        schedule=steps,
        on_trace_ready=tensorboard_trace_handler(str(tmp_path), use_gzip=True),
    ) as prof:
        for _ in range(3):
            x * 2
            prof.step()
    (path,) = tmp_path.glob("*.pt.trace.json.gz")
    with gzip.open(path) as file:
        assert len(select(json.load(file), "kernel")) == 2
    summary = summarize(load_trace(path))
    assert {row.name for row in summary.scopes} >= {"ProfilerStep#1", "ProfilerStep#2"}
    assert sum(row.device_self for row in summary.scopes) == pytest.approx(summary.device_time)


def test_stacks_with_device_time_can_be_exported(tmp_path):
    x = torch.ones(256, 512, dtype=torch.float16, device="spyre")
    warmed_up(lambda: x * 2)
    options = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(activities=BOTH, with_stack=True, experimental_config=options) as prof:
        x * 2
    path = tmp_path / "stacks.txt"
    prof.export_stacks(str(path), "self_privateuse1_time_total")
    assert any("test_profiler_exports.py" in line for line in path.read_text().splitlines())


def test_shapes_and_modules_are_those_of_the_calls(traced, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).half().to("spyre")
    y = torch.randn(3, 64).half().to("spyre")
    warmed_up(model, y)
    with profile(activities=BOTH, record_shapes=True, with_stack=True) as prof:
        model(y)
    (op,) = [e for e in select(traced(prof), "cpu_op") if e["name"] == "aten::gelu"]
    assert op["args"]["Input Dims"][0] == [3, 64]
    averages = prof.key_averages(group_by_input_shape=True)
    (row,) = [row for row in averages if row.key == "aten::gelu"]
    assert row.input_shapes[0] == [3, 64] and row.device_time_total > 0
    summary = summarize(load_trace(tmp_path / "trace.json"))
    modules = {row.name: row.device_total for row in summary.modules}
    assert modules["Sequential_0"] == pytest.approx(modules["Linear_0"] + modules["GELU_0"])


def test_kernels_of_the_backward_pass_belong_to_its_ops(traced, tmp_path):
    weight = torch.randn(64, 64, device="spyre", dtype=torch.float16, requires_grad=True)

    def step():
        weight.grad = None
        (weight * weight).sum().backward()

    warmed_up(step)
    with profile(activities=BOTH) as prof:
        step()
        torch.spyre.synchronize()
    trace = traced(prof)
    ops = {event["args"]["External id"]: event["name"] for event in select(trace, "cpu_op")}
    kernels = select(trace, "kernel")
    assert all(ops[kernel["args"]["External id"]].startswith("aten::") for kernel in kernels)
    calls = {call["args"]["correlation"]: call for call in select(trace, "privateuse1_runtime")}
    threads = {calls[kernel["args"]["correlation"]]["tid"] for kernel in kernels}
    assert len(threads) == 2, "the backward pass runs on its own thread"


def test_the_older_profiler_measures_device_time_with_events(x):
    warmed_up(lambda: x @ x.t())
    with torch.autograd.profiler.profile(use_device="spyre", use_kineto=False) as prof:
        x @ x.t()
    rows = {row.key: row for row in prof.key_averages()}
    before = torch.spyre.counters()["device_time_ps"]
    x @ x.t()
    kernel_us = (torch.spyre.counters()["device_time_ps"] - before) / 1e6
    # Between its events is the kernel, and the time that launching it takes.
    assert kernel_us <= rows["aten::matmul"].device_time_total <= kernel_us + 20
    assert "Self SPYRE" in prof.key_averages().table()


def test_failed_allocations_are_events(x):
    with (
        profile(activities=BOTH, profile_memory=True) as prof,
        pytest.raises(torch.OutOfMemoryError),
    ):
        torch.empty(1 << 50, device="spyre", dtype=torch.int8)
    assert "[OutOfMemory]" in {event.name for event in prof.events()}


def run(program, **variables):
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TORCH_SPYRE_EAGER": "native"} | variables,
    )


def test_work_without_time_has_no_bandwidth_and_profiling_prints_no_warning(tmp_path):
    path = tmp_path / "functional.json"
    program = f"""
import torch
from torch.profiler import profile
x = torch.ones(64, dtype=torch.float16, device="spyre")
(x * 2).clone()
with profile(with_stack=True) as prof:
    (x * 2).clone()
prof.export_chrome_trace({str(path)!r})
"""
    done = run(program, SPYRE_EMU_MODE="functional")
    assert not re.search("warning|duplicate", done.stdout + done.stderr, re.IGNORECASE)
    (copy,) = select(json.loads(path.read_text()), "gpu_memcpy")
    assert copy["args"]["memory bandwidth (GB/s)"] == "N/A"
    assert summarize(load_trace(path)).device_time == 0


def test_the_package_of_the_profiler_needs_neither_torch_nor_the_extension():
    program = "import sys; sys.modules['torch'] = None; import torch_spyre.profiler as p; print(p)"
    assert "torch_spyre.profiler" in run(program).stdout

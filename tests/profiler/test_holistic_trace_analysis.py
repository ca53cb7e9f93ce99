"""HolisticTraceAnalysis reads our traces, and its figures are those of `spyre trace`."""

import math

import pytest
import torch
from hta.trace_analysis import TraceAnalysis
from profiles import BOTH, warmed_up
from torch.profiler import profile, record_function, schedule
from trace_samples import TraceBuilder, layer_trace

from torch_spyre.profiler.summary import summarize
from torch_spyre.profiler.trace import Clock, WorkKind, load_trace

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture
def analysis(monkeypatch):
    """Return a function that loads a trace into HolisticTraceAnalysis, without rounding to µs."""
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")

    def load(path):
        return TraceAnalysis(
            trace_files={0: str(path)},
            trace_dir=str(path.parent),
            include_last_profiler_step=True,
        )

    return load


@pytest.fixture(scope="module")
def trace_path(tmp_path_factory):
    """Profile steps with kernels on two streams, copies and scopes."""
    x = torch.randn(256, 512, dtype=torch.float16).to("spyre")
    side = torch.spyre.Stream()
    function = torch.compile(lambda x: torch.nn.functional.gelu(x @ x.t()).softmax(-1))
    add = torch.compile(lambda x: x + 1)

    def step():
        with record_function("forward"):
            y = function(x)
        with torch.spyre.stream(side):
            add(x)
        with record_function("copy"):
            y.cpu()
        torch.spyre.synchronize()

    warmed_up(step)
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    with profile(
        activities=BOTH,
        schedule=schedule(wait=0, warmup=1, active=3),
        on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
    ) as prof:
        for _ in range(4):
            step()
            prof.step()
    return path


def test_breakdowns_of_a_profile_agree(analysis, trace_path):
    hta = analysis(trace_path)
    summary = summarize(load_trace(trace_path, Clock.HOST))
    times = summary.cards[0].breakdown
    (row,) = hta.get_temporal_breakdown(visualize=False).to_dict("records")
    assert row["idle_time(us)"] == pytest.approx(times.idle, abs=0.1)
    assert row["compute_time(us)"] == pytest.approx(times.compute, abs=0.1)
    assert row["non_compute_time(us)"] == pytest.approx(times.memory_only, abs=0.1)
    assert row["kernel_time(us)"] == pytest.approx(times.elapsed, abs=0.1)
    assert hta.get_profiler_steps() == [1, 2, 3]


def test_kernels_copies_and_scopes_of_a_profile_agree(analysis, trace_path):
    hta = analysis(trace_path)
    summary = summarize(load_trace(trace_path, Clock.HOST))
    kinds, kernels = hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=50)
    ours = {row.name: row for row in summary.work}
    for row in kernels.to_dict("records"):
        assert row["sum (us)"] == pytest.approx(ours[row["name"]].times.total, abs=0.01)
        assert row["mean (us)"] == pytest.approx(ours[row["name"]].times.mean, abs=0.01)
    assert set(kernels["name"]) == set(ours)
    assert set(kinds["kernel_type"]) == {"COMPUTATION", "MEMORY"}
    scopes = hta.get_gpu_user_annotation_breakdown(visualize=False, num_kernels=50)
    ours = {row.name: row for row in summary.scopes}
    for row in scopes.to_dict("records"):
        if row["name"] in ours:
            total = ours[row["name"]].device_total
            # Kineto widens each part of a scope by 2 ns.
            assert row["sum (us)"] == pytest.approx(total, abs=0.1)
    assert {"forward", "copy"} <= set(scopes["name"])
    bandwidth = hta.get_memory_bw_summary()
    assert bandwidth["memory_bw_gbps"]["mean"].iloc[0] > 0


def test_idle_time_of_a_profile_is_found_and_waits_for_the_host(analysis, trace_path):
    idle, _ = analysis(trace_path).get_idle_time_breakdown(visualize=False)
    times = {(row["stream"], row["idle_category"]): row["idle_time"] for _, row in idle.iterrows()}
    assert sum(time for (_, category), time in times.items() if category == "host_wait") > 0


def test_overlap_of_a_profile_without_communication_is_undefined(analysis, trace_path):
    (overlap,) = analysis(trace_path).get_comm_comp_overlap(visualize=False)[
        "comp_comm_overlap_pctg"
    ]
    assert math.isnan(overlap)
    assert summarize(load_trace(trace_path)).cards[0].breakdown.communication_overlap is None


def with_communication():
    trace = layer_trace()
    names = iter(range(100, 200))
    for begin, duration in ((5, 20), (28, 9), (60, 30)):
        correlation = next(names)
        trace.host("cuda_runtime", "cudaLaunchKernel", begin - 4, 1, correlation=correlation)
        name = "ncclDevKernel_AllReduce_Sum_f16"
        trace.kernel(name, begin, duration, stream=9, correlation=correlation)
    return trace


def without_communication():
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    for index in range(6):
        trace.launch(10 * index, 2, index + 1)
        category = "gpu_memset" if index == 4 else "kernel"
        name = "Memset (Device)" if index == 4 else f"k{index}"
        trace.kernel(name, 11 * index, 13, stream=index % 2, category=category,
                     correlation=index + 1)  # fmt: skip
    return trace


@pytest.mark.parametrize("make", [with_communication, without_communication])
def test_breakdowns_of_written_traces_agree(analysis, tmp_path, make):
    path = make().write(tmp_path / "trace.json")
    hta = analysis(path)
    summary = summarize(load_trace(path))
    times = summary.cards[0].breakdown
    (row,) = hta.get_temporal_breakdown(visualize=False).to_dict("records")
    assert row["idle_time(us)"] == pytest.approx(times.idle)
    assert row["compute_time(us)"] == pytest.approx(times.compute)
    non_compute = times.communication_only + times.memory_only
    assert row["non_compute_time(us)"] == pytest.approx(non_compute)
    (overlap,) = hta.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"]
    if any(entry.kind is WorkKind.COMMUNICATION for entry in summary.work):
        assert overlap == pytest.approx(100 * times.communication_overlap, abs=0.01)
    else:
        assert math.isnan(overlap)

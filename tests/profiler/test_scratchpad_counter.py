"""The counter of scratchpad bytes in traces."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

pytestmark = pytest.mark.usefixtures("kernels")
BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


@pytest.fixture
def traced(tmp_path):
    """Return a function that profiles a call, and returns the counters and kernels of the trace."""

    def trace(function, **options):
        function()
        torch.spyre.synchronize()
        with profile(activities=BOTH, **options) as prof:
            function()
        path = tmp_path / "trace.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
        counters = [e for e in events if e["name"] == "LX bytes" and e["ph"] == "C"]
        return counters, [e for e in events if e.get("cat") == "kernel"], prof

    return trace


def test_samples_lie_inside_of_kernels_and_have_their_peak(traced):
    x = torch.randn(300, 512).half().to("spyre")
    counters, kernels, _ = traced(lambda: (x @ x.t()).softmax(-1), profile_memory=True)
    assert len(kernels) > 1
    samples = sorted((counter["ts"], counter["args"]["bytes"]) for counter in counters)
    for kernel in kernels:
        begin, end = kernel["ts"], kernel["ts"] + kernel["dur"]
        sizes = [size for time, size in samples if begin - 1e-3 <= time < end - 1e-3]
        (stats,) = torch.spyre.scratchpad_stats(kernel["name"])
        peak = max(core.figures.peak_bytes for core in stats.cores)
        assert 0 < max(sizes) <= peak <= kernel["args"]["lx_peak_bytes"]
    assert samples[-1][1] == 0
    assert {counter["pid"] for counter in counters} == {kernel["pid"] for kernel in kernels}


def test_only_profiles_of_memory_have_the_counter(traced):
    x = torch.randn(30, 51).half().to("spyre")
    counters, _, prof = traced(x.exp)
    assert counters == []
    assert "LX bytes" not in {event.name for event in prof.events()}


def test_the_counter_has_no_device_time(traced):
    x = torch.randn(30, 51).half().to("spyre")
    counters, _, prof = traced(x.exp, profile_memory=True)
    assert counters
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["LX bytes"].self_device_time_total == 0 == rows["LX bytes"].self_cpu_time_total

"""Device events of torch.profiler: their times, and the ops and calls that they belong to."""

import json
import os
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from profiles import BOTH, device_events, select, warmed_up
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import torch_spyre.profiler

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture(scope="module")
def x():
    return torch.randn(70, 130).half().to("spyre")


def op_events(trace, name):
    return [event for event in select(trace, "cpu_op") if event["name"] == name]


def test_the_plugin_is_registered_and_the_device_is_a_supported_activity():
    assert torch_spyre.profiler.is_available()
    assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()


def test_a_kernel_belongs_to_the_op_that_launched_it(x, traced):
    warmed_up(lambda: x.clone().mul_(2))
    with profile(activities=BOTH) as prof:
        x.clone().mul_(2)
    trace = traced(prof)
    (op,) = op_events(trace, "aten::mul_")
    (kernel,) = [k for k in select(trace, "kernel") if "mul" in k["name"]]
    assert kernel["args"]["External id"] == op["args"]["External id"]
    (event,) = [event for event in prof.events() if event.name == "aten::mul_"]
    assert [linked.name for linked in event.kernels] == [kernel["name"]]
    assert event.device_time_total == sum(linked.duration for linked in event.kernels)


def test_device_time_of_a_profile_is_that_of_the_counters(x, traced):
    step = torch.compile(lambda x: F.gelu(x @ x.t()).softmax(-1))
    warmed_up(step, x)
    before = torch.spyre.counters()["device_time_ps"]
    with profile(activities=BOTH) as prof:
        for _ in range(3):
            step(x)
        y = x + 1
        y.fill_(2.0)
    spent = torch.spyre.counters()["device_time_ps"] - before
    times = [event["args"]["device_time_ps"] for event in device_events(traced(prof))]
    assert len(times) >= 5
    assert sum(times) == spent


def test_kernels_of_a_compiled_graph_belong_to_a_region_with_device_time(x):
    step = torch.compile(lambda x: F.gelu(x @ x.t()).softmax(-1))
    warmed_up(step, x)
    with profile(activities=BOTH) as prof, record_function("my step"):
        step(x)
    scopes = [event for event in prof.key_averages() if event.key == "my step"]
    (scope,) = [event for event in scopes if event.device_type == DeviceType.CPU]
    on_card = [event for event in prof.events() if event.device_type == DeviceType.PrivateUse1]
    kernels = [event for event in on_card if not event.is_user_annotation]
    assert scope.device_time_total > 0
    assert scope.device_time_total == sum(kernel.device_time_total for kernel in kernels)


def test_kernel_arguments_hold_utilisations_bytes_and_what_bounds_the_kernel(x, traced):
    warmed_up(lambda: x @ x.t())
    with profile(activities=BOTH) as prof:
        x @ x.t()
    # The transposed operand may be restickified first.
    kernel = select(traced(prof), "kernel")[-1]
    arguments = kernel["args"]
    for unit in ("pt", "sfp", "ddr", "lx", "ring"):
        assert 0 <= arguments[f"{unit}_util"] <= 1
    assert arguments["pt_util"] > 0
    assert arguments["ddr_util"] > 0
    assert 1 <= arguments["cores"] <= 32
    assert arguments["bytes"] >= x.numel() * 2
    assert arguments["bound_by"] in ("pt", "sfp", "ddr", "lx", "ring")
    assert 0 < arguments["lx_peak_bytes"] <= 2 << 20
    assert 0 < arguments["ideal_cycles"] <= arguments["cycles"]
    assert "matmul" in arguments["op"]


def test_copies_have_their_direction_bytes_and_bandwidth(traced):
    host = torch.randn(64, 64).half()
    with profile(activities=BOTH) as prof:
        host.to("spyre").cpu()
    copies = select(traced(prof), "gpu_memcpy")
    assert [copy["name"] for copy in copies] == ["Memcpy (HtoD)", "Memcpy (DtoH)"]
    for copy in copies:
        assert copy["args"]["bytes"] == host.numel() * 2
        bandwidth = copy["args"]["bytes"] / (copy["dur"] * 1000)
        assert copy["args"]["memory bandwidth (GB/s)"] == pytest.approx(bandwidth, rel=1e-6)


def test_every_launch_has_one_flow_to_its_kernel_which_starts_no_earlier(x, traced):
    warmed_up(lambda: (x + 1, x * 2))
    with profile(activities=BOTH) as prof:
        for _ in range(4):
            x + 1, x * 2
    trace = traced(prof)
    starts = [event["id"] for event in select(trace, "ac2g") if event["ph"] == "s"]
    ends = [event["id"] for event in select(trace, "ac2g") if event["ph"] == "f"]
    assert len(starts) == len(set(starts)) == 8
    assert sorted(starts) == sorted(ends)
    calls = {call["args"]["correlation"]: call for call in select(trace, "privateuse1_runtime")}
    for kernel in select(trace, "kernel"):
        assert kernel["ts"] >= calls[kernel["args"]["correlation"]]["ts"]


def test_device_events_of_a_stream_do_not_overlap_and_lie_in_the_profile(x, traced):
    def step():
        streams = [torch.spyre.Stream(), torch.spyre.Stream()]
        for _ in range(3):
            for stream in streams:
                with torch.spyre.stream(stream):
                    (x @ x.t()).relu()
        x.cpu()

    warmed_up(step)
    with profile(activities=BOTH) as prof, record_function("window"):
        step()
        torch.spyre.synchronize()
    trace = traced(prof)
    (window,) = [e for e in select(trace, "user_annotation") if e["name"] == "window"]
    rows = {}
    for event in device_events(trace):
        rows.setdefault((event["pid"], event["tid"]), []).append(event)
    assert len(rows) == 3
    for events in rows.values():
        events.sort(key=lambda event: event["ts"])
        for earlier, later in zip(events, events[1:], strict=False):
            assert earlier["ts"] + earlier["dur"] <= later["ts"] + 1e-3
        assert events[0]["ts"] >= window["ts"]
        assert events[-1]["ts"] + events[-1]["dur"] <= window["ts"] + window["dur"] + 1e-3


def test_a_schedule_records_the_kernels_of_the_active_steps_only(x):
    warmed_up(lambda: x * 3)
    counts = []
    steps = schedule(wait=1, warmup=1, active=2, repeat=2)

    def count(prof):
        events = [e for e in prof.events() if e.device_type == DeviceType.PrivateUse1]
        counts.append(len([e for e in events if "mul" in e.name]))

    with profile(activities=BOTH, schedule=steps, on_trace_ready=count) as prof:
        for _ in range(8):
            x * 3
            prof.step()
    assert counts == [2, 2]


def test_profiles_share_no_events(x, traced):
    warmed_up(lambda: (x + 1, x * 2))
    with profile(activities=BOTH) as first:
        x + 1
    with profile(activities=BOTH) as second:
        x * 2
    names = [[kernel["name"] for kernel in select(traced(p), "kernel")] for p in (first, second)]
    assert [len(kernels) for kernels in names] == [1, 1]
    assert "add" in names[0][0]
    assert "mul" in names[1][0]


def test_a_profile_of_the_device_alone_has_kernels_and_calls_but_no_ops(x, traced):
    warmed_up(lambda: x * 2)
    with profile(activities=[ProfilerActivity.PrivateUse1]) as prof:
        x * 2
    trace = traced(prof)
    assert select(trace, "kernel")
    assert select(trace, "privateuse1_runtime")
    assert not select(trace, "cpu_op")


def test_a_profile_of_the_host_alone_has_no_device_events(x, traced):
    warmed_up(lambda: x * 2)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        x * 2
    trace = traced(prof)
    assert op_events(trace, "aten::mul")
    assert not device_events(trace)


def test_the_default_activities_include_the_card(x, traced):
    warmed_up(lambda: x * 2)
    with profile() as prof:
        x * 2
    assert select(traced(prof), "kernel")


def test_launches_outside_of_ops_are_linked_to_no_foreign_op_with_stacks(x, traced):
    warmed_up(lambda: x * 2)
    with profile(activities=BOTH, with_stack=True) as prof:
        x * 2
        torch.spyre.synchronize()
    waits = [e for e in select(traced(prof), "privateuse1_runtime") if "Wait" in e["name"]]
    assert waits
    assert all("External id" not in wait["args"] for wait in waits)


def test_launches_of_several_threads_are_rows_of_their_threads(x, traced):
    warmed_up(lambda: x * 2)
    with profile(activities=BOTH) as prof:
        threads = [threading.Thread(target=lambda: x * 2) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = traced(prof)
    assert len(select(trace, "kernel")) == 3
    assert len({call["tid"] for call in select(trace, "privateuse1_runtime")}) >= 3


def test_memory_events_are_equal_and_opposite_and_cover_whole_sticks(traced):
    torch.empty(1, device="spyre")
    with profile(activities=BOTH, profile_memory=True) as prof:
        tensor = torch.empty(65, dtype=torch.float16, device="spyre")
        del tensor
    changes = [
        event["args"]
        for event in select(traced(prof), "cpu_instant_event")
        if event["args"]["Device Type"] == DeviceType.PrivateUse1.value
    ]
    assert [change["Bytes"] for change in changes] == [256, -256]
    assert changes[0]["Addr"] == changes[1]["Addr"]


def test_tables_have_columns_of_the_device(x):
    warmed_up(lambda: x * 2)
    with profile(activities=BOTH, profile_memory=True) as prof:
        x * 2
    table = prof.key_averages().table(sort_by="self_device_time_total")
    assert "Self SPYRE" in table
    assert "SPYRE Mem" in table
    assert "CUDA" not in table


def test_compiling_and_launching_are_regions_of_the_profile():
    y = torch.randn(3, 77).half().to("spyre")
    function = torch.compile(lambda y: (y * 3).sin())
    with profile(activities=BOTH) as cold:
        function(y)
    with profile(activities=BOTH) as warm:
        function(y)
    names = [{event.name.split(":")[0] for event in prof.events()} for prof in (cold, warm)]
    assert {"dxp_standalone", "launch_kernel"} <= names[0]
    assert "launch_kernel" in names[1]
    assert "dxp_standalone" not in names[1]


def test_the_trace_states_that_device_time_is_simulated(x, traced):
    with profile(activities=BOTH) as prof:
        x * 2
    trace = traced(prof)
    assert trace["spyre_time_source"] == "simulated"
    assert trace["deviceProperties"][0]["numSms"] == 32


def test_the_kernels_of_two_cards_are_in_rows_of_their_cards(tmp_path):
    code = f"""
import torch
from torch.profiler import profile
with profile() as prof:
    for card in range(2):
        (torch.ones(64, device=f"spyre:{{card}}") * 2).cpu()
prof.export_chrome_trace({str(tmp_path / "two.json")!r})
"""
    environment = os.environ | {"AIU_WORLD_SIZE": "2", "TORCH_SPYRE_EAGER": "native"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    trace = json.loads((tmp_path / "two.json").read_text())
    assert {kernel["pid"] for kernel in select(trace, "kernel")} == {0, 1}
    names = {e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name"}
    assert {"spyre:0", "spyre:1"} <= names


def test_kernels_name_the_ops_lines_and_modules_they_come_from(x, traced):
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x * 3
            return y.softmax(-1)

    model = torch.nn.Sequential(Model(), Model())
    step = warmed_up(torch.compile(model), x)
    warmed_up(torch.sinh, x)
    with profile(activities=BOTH) as prof:
        step(x)
        torch.sinh(x)
    kernels = select(traced(prof), "kernel")
    first = Model.forward.__code__.co_firstlineno
    fused = [kernel["args"] for kernel in kernels if "softmax" in str(kernel["args"]["aten"])]
    lines = {line for args in fused for line in args["source"].split(", ")}
    assert lines == {f"{__file__}:{first + 1}", f"{__file__}:{first + 2}"}
    assert {name for args in fused for name in args["module"].split(", ")} == {"0", "1"}
    (eager,) = [kernel["args"] for kernel in kernels if "sinh" in kernel["name"]]
    assert eager["aten"] == "aten.sinh.default"
    assert eager["source"].startswith(f"{__file__}:")

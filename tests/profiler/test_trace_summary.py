"""Summaries of traces that are written by hand, whose figures are known."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import TraceBuilder, layer_trace

from torch_spyre.errors import TraceFileError
from torch_spyre.profiler.breakdown import GapCause, breakdowns
from torch_spyre.profiler.comparison import compare
from torch_spyre.profiler.ownership import NO_OP, device_time_tree
from torch_spyre.profiler.program_places import PlaceRow, short_places
from torch_spyre.profiler.summary import summarize, to_json
from torch_spyre.profiler.trace import Clock, WorkKind, load_trace, trace_of
from torch_spyre.profiler.trace_file import TraceFile
from torch_spyre.profiler.utilisation import IdealCycles, UtilisationSource, read_ideal_cycles


def loaded(builder, clock=None):
    content = builder.content()
    header = {key: value for key, value in content.items() if key != "traceEvents"}
    return trace_of(TraceFile("sample.json", content["traceEvents"], header), clock)


@pytest.fixture
def layer():
    return summarize(loaded(layer_trace()))


def by_name(rows):
    return {row.name: row for row in rows}


def test_parts_of_the_time_of_a_card_add_up_to_it(layer):
    (card,) = layer.cards
    times = card.breakdown
    assert (times.begin, times.end, times.elapsed) == (10, 125, 115)
    assert (times.compute, times.memory_only, times.communication_only) == (45, 20, 0)
    assert times.idle == 50
    assert (card.num_kernels, card.num_copies) == (3, 1)


def test_gaps_are_caused_by_the_host_if_no_launch_was_pending(layer):
    gaps = layer.cards[0].breakdown.gaps
    assert [(gap.begin, gap.end, gap.cause) for gap in gaps] == [
        (30, 35, GapCause.DEVICE), (45, 65, GapCause.HOST), (80, 105, GapCause.HOST),
    ]  # fmt: skip
    assert (gaps[1].before, gaps[1].after) == ("sdsc_mm", "sdsc_relu")
    causes = layer.cards[0].breakdown.idle_by_cause()
    assert causes == {GapCause.DEVICE: 5, GapCause.HOST: 45, GapCause.UNKNOWN: 0}


def test_gaps_before_work_without_a_launch_have_an_unknown_cause():
    trace = TraceBuilder()
    trace.kernel("a", 0, 1)
    trace.kernel("b", 3, 1)
    (gap,) = summarize(loaded(trace)).cards[0].breakdown.gaps
    assert (gap.duration, gap.cause) == (2, GapCause.UNKNOWN)


def test_overlap_is_the_share_of_communication_that_kernels_hide():
    trace = TraceBuilder()
    trace.kernel("gemm", 0, 10, stream=0)
    trace.kernel("ncclDevKernel_AllReduce_Sum_f16", 6, 8, stream=1)
    trace.kernel("Memcpy HtoD", 12, 4, stream=2, category="gpu_memcpy")
    times = summarize(loaded(trace)).cards[0].breakdown
    assert (times.compute, times.communication_only, times.memory_only) == (10, 4, 2)
    assert (times.communication, times.communication_overlap) == (8, 0.5)
    assert (times.memory, times.memory_overlap, times.idle) == (4, 0, 0)


SPANS = st.tuples(
    st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "collective_comm"]),
    st.integers(0, 50), st.integers(0, 12), st.integers(0, 1), st.integers(0, 2),
)  # fmt: skip


@given(st.lists(SPANS, min_size=1, max_size=12))
def test_parts_are_those_of_every_microsecond(spans):
    """Classify each microsecond of each card by what runs in it."""
    trace = TraceBuilder()
    for category, begin, duration, card, stream in spans:
        trace.kernel("x", begin, duration, card, stream, category)
    for result in breakdowns(loaded(trace)):
        work = [span for span in spans if span[3] == result.card]
        first = min(begin for _, begin, *_ in work)
        last = max(begin + duration for _, begin, duration, *_ in work)
        parts = {"compute": 0, "communication_only": 0, "memory_only": 0, "idle": 0}
        for moment in range(first, last):
            running = {c for c, begin, d, *_ in work if begin <= moment < begin + d}
            if "kernel" in running:
                parts["compute"] += 1
            elif "collective_comm" in running:
                parts["communication_only"] += 1
            elif running:
                parts["memory_only"] += 1
            else:
                parts["idle"] += 1
        assert {part: getattr(result, part) for part in parts} == parts
        assert sum(parts.values()) == result.elapsed
        assert sum(gap.duration for gap in result.gaps) == parts["idle"]


def test_time_belongs_to_the_ops_scopes_and_modules_around_the_launch(layer):
    ops = by_name(layer.ops)
    assert (ops["aten::addmm"].device_self, ops["aten::addmm"].device_total) == (30, 30)
    assert (ops["aten::linear"].device_self, ops["aten::linear"].device_total) == (0, 30)
    assert (ops["aten::linear"].host_self, ops["aten::linear"].host_total) == (8, 38)
    assert ops["aten::relu"].device_self == 15
    assert ops[NO_OP].device_self == 20
    assert by_name(layer.scopes)["forward"].device_total == 45
    assert by_name(layer.modules)["Linear_0"].device_total == 30
    assert sum(row.device_self for row in layer.ops) == layer.device_time == 65


def test_the_tree_of_device_time_has_scopes_modules_ops_and_kernels(layer):
    root = device_time_tree(layer.ownership)
    node = root
    for name in ("forward", "Linear_0", "aten::linear", "aten::addmm", "sdsc_mm"):
        node = node.children[name]
    assert (root.time, node.time) == (65, 30)


def test_time_belongs_to_the_lines_and_modules_that_kernels_state():
    trace = TraceBuilder()
    trace.kernel("one", 0, 10, source="/home/a.py:3", module="layers.0")
    trace.kernel("both", 20, 5, source="/home/a.py:3, /home/b.py:4", module="layers.0")
    trace.kernel("one", 30, 10, source="/home/a.py:3")
    trace.kernel("odd", 50, 1, source=None, module=[7])
    trace.kernel("Memcpy (DtoH)", 60, 1, category="gpu_memcpy", source="/home/a.py:9")
    summary = summarize(loaded(trace))
    assert summary.lines == [
        PlaceRow("/home/a.py:3", 3, 20.0, 25.0),
        PlaceRow("/home/b.py:4", 1, 0.0, 5.0),
    ]
    assert summary.kernel_modules == [PlaceRow("layers.0", 2, 15.0, 15.0)]
    rows = by_name(summary.work)
    assert rows["both"].lines == ("/home/a.py:3", "/home/b.py:4")
    assert short_places(rows["both"].lines) == "a.py:3 +1"
    assert short_places(rows["odd"].lines) == ""


def test_a_recursive_op_counts_its_time_once():
    trace = TraceBuilder()
    trace.op("f", 0, 10)
    trace.op("f", 2, 6)
    trace.launch(3, 1, 1)
    trace.kernel("k", 4, 5, correlation=1)
    row = by_name(summarize(loaded(trace)).ops)["f"]
    assert (row.calls, row.host_self, row.host_total) == (2, 10, 10)
    assert (row.device_self, row.device_total) == (5, 5)


def test_work_without_a_call_belongs_to_its_op_by_external_id():
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10, **{"External id": 7})
    trace.kernel("k", 4, 5, **{"External id": 7})
    summary = summarize(loaded(trace))
    assert by_name(summary.ops)["aten::mm"].device_self == 5
    assert summary.launch_delay is None


def test_launch_delay_is_from_the_launch_to_the_start(layer):
    delay = layer.launch_delay
    assert (delay.count, delay.minimum, delay.maximum) == (4, 0, 21)
    assert delay.mean == (0 + 21 + 5 + 4) / 4


def test_utilisations_are_means_over_time(layer):
    row = by_name(layer.work)["sdsc_mm"]
    assert row.utilisations["pt"] == pytest.approx((0.5 * 20 + 0.2 * 10) / 30)
    assert row.utilisations["ddr"] == pytest.approx((0.25 * 20 + 0.4 * 10) / 30)
    assert (row.num_bytes, row.times.count, row.times.total) == (1500, 2, 30)
    assert row.share == 30 / 65
    assert by_name(layer.work)["Memcpy (DtoH)"].bandwidth == 40000 / 20000


def test_ideal_cycles_at_a_clock_give_the_utilisation():
    """220,000 cycles at 1100 MHz are 200 µs: 40 % of 500 µs."""
    trace = TraceBuilder()
    trace.kernel("sdsc_mm Cmpt Exec", 0, 500)
    source = UtilisationSource({"sdsc_mm": IdealCycles(220_000, "matmul")}, 1100.0)
    summary = summarize(loaded(trace), source)
    assert summary.work[0].utilisations["pt"] == pytest.approx(0.4)
    assert summary.cards[0].pt_utilisation == pytest.approx(0.4)


def test_the_clock_of_a_kernel_is_its_cycles_over_its_time():
    trace = TraceBuilder()
    trace.kernel("k", 0, 10, cycles=15000, ideal_cycles=3000)
    assert summarize(loaded(trace)).work[0].utilisations["pt"] == pytest.approx(0.2)


def test_utilisation_above_the_peak_is_flagged_and_left_out():
    trace = TraceBuilder()
    trace.kernel("fast", 0, 10, pt_util=1.5)
    trace.kernel("good", 20, 10, pt_util=0.5)
    summary = summarize(loaded(trace))
    rows = by_name(summary.work)
    assert (rows["fast"].num_exceeding, rows["fast"].utilisations) == (1, {})
    assert summary.cards[0].pt_utilisation == 0.5
    assert any("above 100 %" in note for note in summary.notes)
    assert "1.5" not in json.dumps(to_json(summary)["work"])


def test_categories_add_up_to_their_total():
    trace = TraceBuilder()
    trace.kernel("a", 0, 10, op_category="matmul", pt_util=0.8)
    trace.kernel("b", 10, 30, op_category="pointwise", pt_util=0.0)
    trace.kernel("c", 40, 20, pt_util=0.1)
    trace.kernel("d", 60, 5, op_category="matmul", pt_util=2.0)
    trace.kernel("e", 0, 5, card=1)
    rows = summarize(loaded(trace)).categories
    for card in (0, 1):
        *parts, total = [row for row in rows if row.card == card]
        assert total.is_total
        assert "StcdpHbm" in {row.category for row in parts}
        for field in ("kernel_time", "calls", "ideal_time", "ideal_cycles"):
            assert sum(getattr(row, field) for row in parts) == pytest.approx(getattr(total, field))
        assert sum(row.share for row in parts) == pytest.approx(1)
    matmul = next(row for row in rows if row.category == "matmul")
    # The kernel above the peak adds its time and no ideal time.
    assert (matmul.kernel_time, matmul.ideal_time) == (15, pytest.approx(8))
    assert matmul.utilisation == pytest.approx(8 / 15)
    assert {row.category for row in rows} >= {"other", "pointwise"}


def test_files_of_ideal_cycles_are_summed_by_kernel(tmp_path):
    folder = tmp_path / "inductor-spyre" / "sdsc_fused_add_0_x7Gq" / "perf"
    folder.mkdir(parents=True)
    entries = [{"ideal_cycles": 5, "op_category": "a"}, {"ideal_cycles": 7, "op_category": "b"}]
    (folder / "ideal_cycles.json").write_text(json.dumps(entries))
    assert read_ideal_cycles(tmp_path)["sdsc_fused_add_0"] == IdealCycles(12, "b")
    (folder / "ideal_cycles.json").write_text('[{"ideal_cycles": "many"}]')
    with pytest.raises(TraceFileError, match="not a list of ideal cycles"):
        read_ideal_cycles(tmp_path)
    with pytest.raises(TraceFileError, match="perf/ideal_cycles.json"):
        read_ideal_cycles(folder)


def on_both_clocks():
    trace = layer_trace(spyre_time_source="simulated")
    times = iter([(100, 120, 95), (120, 130, 97), (133, 148, 129), (150, 170, 131)])
    for event in trace.events:
        if event["pid"] == 0:
            begin, end, launch = next(times)
            event["args"] |= {
                "device_begin_ps": begin * 10**6,
                "device_time_ps": (end - begin) * 10**6,
                "device_launch_ps": launch * 10**6,
                "device_submit_ps": (launch + 2) * 10**6,
            }
    return trace


def test_the_clock_of_the_card_is_used_if_a_trace_has_it():
    summary = summarize(loaded(on_both_clocks()))
    assert summary.trace.clock is Clock.CARD
    times = summary.cards[0].breakdown
    assert (times.begin, times.end, times.idle) == (5, 75, 5)
    assert [(gap.duration, gap.cause) for gap in times.gaps] == [
        (3, GapCause.HOST), (2, GapCause.DEVICE),
    ]  # fmt: skip
    assert summary.launch_delay.minimum == 4
    on_host = summarize(loaded(on_both_clocks(), Clock.HOST))
    assert on_host.cards[0].breakdown.idle == 50


def test_the_clock_of_the_card_is_rejected_where_a_trace_lacks_it():
    with pytest.raises(TraceFileError, match="--clock host"):
        loaded(layer_trace(), Clock.CARD)


def test_a_comparison_lists_changes_by_size(layer):
    other = layer_trace()
    for event in other.events:
        if event["name"] == "sdsc_relu":
            event["dur"] = 5
    other.kernel("sdsc_new", 200, 1)
    comparison = compare(layer, summarize(loaded(other)))
    rows = by_name(comparison.work)
    assert [row.name for row in comparison.work][:2] == ["sdsc_relu", "sdsc_new"]
    assert (rows["sdsc_relu"].change, rows["sdsc_relu"].ratio) == (-10, 5 / 15)
    assert (rows["sdsc_new"].calls, rows["sdsc_new"].ratio) == ((0, 1), None)
    assert by_name(comparison.totals)["all work"].times == (65, 56)


def test_a_trace_of_cuda_is_read_with_its_categories_and_missing_arguments(tmp_path):
    """As Kineto wrote them for CUDA, with names of categories of older versions."""
    trace = TraceBuilder()
    trace.host("Operator", "aten::mm", 0, 10, **{"External id": 3})
    trace.host("Runtime", "cudaLaunchKernel", 2, 1, correlation=9)
    trace.host("cuda_runtime", "cudaDeviceSynchronize", 12, 30, correlation=10)
    trace.kernel("volta_sgemm_128x64_nn", 5, 20, category="Kernel", correlation=9)
    trace.events[-1]["args"].pop("device")
    trace.kernel("Memset (Device)", 30, 1, category="gpu_memset")
    trace.events.append({"ph": "X", "cat": "kernel", "name": "no arguments", "ts": 40, "dur": 2,
                         "pid": 0, "tid": 7})  # fmt: skip
    trace.events.append({"ph": "X", "cat": "kernel", "name": "damaged", "ts": "now", "dur": 2})
    path = tmp_path / "cuda.json.gz"
    path.write_bytes(gzip.compress(json.dumps(trace.content()["traceEvents"]).encode()))
    summary = summarize(load_trace(path))
    assert by_name(summary.ops)["aten::mm"].device_self == 20
    assert summary.host_waits.total == 30
    kinds = {row.name: row.kind for row in summary.work}
    assert kinds["Memset (Device)"] is WorkKind.FILL
    assert "no arguments" in kinds and "damaged" not in kinds
    assert summary.cards[0].pt_utilisation is None
    assert any("1 events without a valid time" in note for note in summary.notes)


def test_a_trace_of_the_host_alone_has_ops_and_no_cards(tmp_path):
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    summary = summarize(load_trace(trace.write(tmp_path / "cpu.json")))
    assert (summary.cards, summary.work) == ([], [])
    assert summary.ops[0].host_self == 10


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not JSON"), (b"{", "not JSON"), (b"\xff\xfe\x00", "not"), (b"7", "no list"),
        (b'{"a": 1}', "no list"), (b'{"traceEvents": 3}', "no list"), (b"[]", "no events"),
        (b'{"traceEvents": [1, null, {}, {"ph": "X"}]}', "no events"),
        (b"[" * 100_000, "nested too deeply"), (b"\x1f\x8bnothing", "damaged"),
        (gzip.compress(b"[]" * 1000, mtime=0)[:-20], "damaged"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_is_an_error_with_its_name(tmp_path, content, problem):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(TraceFileError, match=problem) as error:
        load_trace(path)
    assert str(path) in str(error.value)


def test_a_path_that_cannot_be_read_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere.json"):
        with pytest.raises(TraceFileError, match=str(path)):
            load_trace(path)


ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4),
    st.sampled_from(["kernel", "X", "cpu_op", "gpu_memcpy", "[memory]", "1e400", "nan"]),
)  # fmt: skip
VALUES = st.one_of(
    ATOMS,
    st.lists(ATOMS, max_size=2),
    st.dictionaries(st.sampled_from(["pt", "correlation", "device", "bytes"]), ATOMS, max_size=2),
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ["correlation", "External id", "device", "stream", "bytes", "pt_util", "ddr_util",
         "ideal_cycles", "cycles", "unit_cycles", "device_begin_ps", "device_time_ps", "cores",
         "device_launch_ps", "device_submit_ps", "bound_by", "Device Id", "Total Allocated"]
    ),
    VALUES,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "i", 3]), "ts": VALUES, "dur": VALUES},
    optional={
        "cat": st.one_of(st.sampled_from(["kernel", "cpu_op", "cuda_runtime"]), VALUES),
        "name": VALUES, "pid": VALUES, "tid": VALUES, "args": st.one_of(ARGUMENTS, VALUES),
    },
)  # fmt: skip


@given(st.lists(EVENTS, max_size=4), st.dictionaries(st.text(max_size=3), VALUES, max_size=1))
def test_any_events_are_summarized_or_rejected(events, header):
    try:
        trace = trace_of(TraceFile("fuzz.json", events, header))
    except TraceFileError:
        return
    json.dumps(to_json(summarize(trace)))

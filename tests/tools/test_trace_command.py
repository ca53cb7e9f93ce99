"""`spyre trace` and `aiu-trace-analyzer`, run as a user does."""

import csv
import json
import os
import subprocess
import sys

import pytest
from trace_samples import TraceBuilder, layer_trace

from torch_spyre.tools import cli, trace_analyzer


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs a program and returns its exit code, stdout and stderr."""

    def run(program, *words):
        monkeypatch.setattr(sys, "argv", ["program", *map(str, words)])
        code = 0
        try:
            program()
        except SystemExit as exit_:
            code = exit_.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def spyre(command):
    return lambda *words: command(cli.main, "trace", *words)


@pytest.fixture
def analyzer(command):
    return lambda *words: command(trace_analyzer.main, *words)


@pytest.fixture
def layer(tmp_path):
    return layer_trace(spyre_time_source="simulated").write(tmp_path / "layer.json")


def test_the_summary_has_kernels_utilisation_idle_time_and_owners(spyre, layer):
    code, out, err = spyre(layer)
    assert (code, err) == (0, "")
    for text in (
        "sdsc_mm", "Memcpy (DtoH)", "aten::addmm", "forward", "Linear_0",
        "43.5 %  45 µs waiting for the host, 5 µs with work pending",
        "40.0 %", "2 GB/s", "Launch delay", "gaps between kernels are those of the emulation",
    ):  # fmt: skip
        assert text in out


def test_json_has_what_the_tables_show(spyre, layer):
    code, out, _ = spyre(layer, "--json")
    (trace,) = json.loads(out)["traces"]
    assert code == 0
    assert trace["cards"][0]["times_us"]["idle"] == 50
    assert (
        sum(
            trace["cards"][0]["times_us"][part]
            for part in ("compute", "communication_only", "memory_only", "idle")
        )
        == trace["cards"][0]["times_us"]["elapsed"]
    )
    assert trace["work"][0]["name"] == "sdsc_mm"
    assert trace["launch_delay_us"]["count"] == 4


def test_a_comparison_shows_both_traces(spyre, layer, tmp_path):
    other = layer_trace()
    other.events[-2]["dur"] = 5
    path = other.write(tmp_path / "other.json")
    code, out, _ = spyre(layer, "--compare", path)
    assert code == 0
    assert "-66.7 %" in out and "layer.json compared with" in out
    code, out, _ = spyre(layer, "--compare", path, "--json")
    rows = {row["name"]: row for row in json.loads(out)["comparison"]["work"]}
    assert rows["sdsc_relu"]["times"] == [15, 5]


def test_tables_are_cut_at_the_number_of_rows(spyre, layer):
    _, out, _ = spyre(layer, "--top", 1)
    assert "sdsc_mm" in out and "sdsc_relu" not in out.split("Kernels")[1].split("Copies")[0]
    assert "and 1 more" in out


def test_the_page_has_pictures_and_a_sortable_table(spyre, layer, tmp_path, browser):
    page = tmp_path / "page.html"
    assert spyre(layer, "--html", page)[0] == 0
    heads = "document.querySelectorAll('#work0 th')"
    view = browser.open(page, script=f"{heads}[0].click(); {heads}[0].click()")
    assert [text for text in view.texts("h3")][:2] == ["Where the time goes", "Longest idle times"]
    rectangles = [name for name in view.texts("svg", class_="box") if "sdsc_mm" in name]
    # Two in the timeline, one in the tree.
    assert len(rectangles) == 3
    assert view.texts("text", class_="name") == ["card 0, stream 0"]
    names = [row.text.strip().split("\n")[0] for row in view.elements("tr")]
    assert [name for name in names if name.startswith("sdsc")] == sorted(
        [name for name in names if name.startswith("sdsc")], reverse=True
    )
    (data,) = view.texts("script", id="data")
    assert json.loads(data)["traces"][0]["work"][0]["name"] == "sdsc_mm"


def test_the_page_of_a_comparison_marks_what_is_slower(spyre, layer, tmp_path, browser):
    other = layer_trace()
    other.events[-2]["dur"] = 50
    page = tmp_path / "page.html"
    spyre(layer, "--compare", other.write(tmp_path / "other.json"), "--html", page)
    view = browser.open(page)
    assert view.texts("td", class_="bad")[0] == "35 µs"


def test_the_csv_tables_have_the_columns_of_upstream(spyre, tmp_path):
    trace = TraceBuilder()
    for index in range(12):
        trace.kernel(f"sdsc_mm_{index}", 10 * index, 5, op_category="matmul", pt_util=0.5)
    prefix = tmp_path / "run"
    assert spyre(trace.write(tmp_path / "t.json"), "--csv", prefix)[0] == 0
    with (tmp_path / "run_categories.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "Pid", "Phase", "Category", "Kernel_Time", "Frac_Time", "Calls", "Ideal_Time",
        "Ideal_Cyc", "Frac_Ideal", "PT_Util",
    ]  # fmt: skip
    assert [row["Category"] for row in rows] == ["StcdpHbm", "matmul", "Total"]
    assert (rows[1]["Kernel_Time"], rows[1]["PT_Util"]) == ("60.000", "0.5000")
    with (tmp_path / "run_summary.csv").open() as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert (row["Name"], row["Calls"], row["Total Time (us)"]) == ("sdsc_mm_[N]", "12", "60.000")
    with (tmp_path / "run_active.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["Elapsed (us)"], row["Active (%)"]) == ("115.000", "52.17")
    assert "Total" in (tmp_path / "run_categories.txt").read_text()


@pytest.mark.parametrize("content", ["{", "", "[]", "null", '{"traceEvents": "no"}', "\0\1"])
def test_a_foreign_file_is_an_error_in_one_line(spyre, analyzer, tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    for code, out, err in (spyre(path), spyre(path, "--json"), analyzer("-i", path)):
        assert (code, out) == (1, "")
        assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err


def test_names_that_are_no_text_and_huge_numbers_are_shown(spyre, analyzer, tmp_path):
    path = tmp_path / "odd.json"
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 0, "ts": 1, "dur": 1e300}
    path.write_text(
        json.dumps([{**kernel, "name": "half \ud800 a pair", "args": {"bytes": 10**60}}])
    )
    page, processed = tmp_path / "odd.html", tmp_path / "out.json"
    code, out, err = spyre(path, "--html", page, "--csv", tmp_path / "odd")
    assert (code, err) == (0, "")
    assert "1e+285 Gs" in out and max(map(len, out.splitlines())) < 200
    assert "half \\ud800 a pair" in page.read_text(encoding="utf-8")
    assert analyzer("-i", path, "-o", processed)[0] == 0 and processed.exists()


def test_a_terminal_without_utf_8_gets_escapes(layer):
    code = "from torch_spyre.tools.cli import main; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", code, "trace", str(layer)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xb5s" in done.stdout


def test_wrong_usage_exits_with_2(spyre, layer, tmp_path):
    for words in ([], [layer, layer, "--compare", layer], [layer, "--clock", "moon"]):
        assert spyre(*words)[0] == 2
    code, _, err = spyre(layer, "--html", tmp_path / "nowhere" / "page.html")
    assert code == 1 and "cannot write" in err
    code, _, err = spyre(layer, "--clock", "card")
    assert code == 1 and "--clock host" in err


def test_several_files_have_a_summary_each(spyre, layer):
    code, out, _ = spyre(layer, layer, "--json")
    assert code == 0 and len(json.loads(out)["traces"]) == 2


def test_reading_traces_needs_no_torch(layer):
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['spyre', 'trace', sys.argv[1]]\n"
        "from torch_spyre.tools.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program, layer], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_analyzer_adds_counters_and_writes_tables(analyzer, layer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = analyzer("-i", layer)
    assert (code, err) == (0, "")
    assert out.split() == [
        "processed_trace.pt.trace.json", "processed_trace_categories.csv",
        "processed_trace_categories.txt", "processed_trace_summary.csv",
        "processed_trace_active.csv",
    ]  # fmt: skip
    assert all((tmp_path / name).exists() for name in out.split())
    content = json.loads((tmp_path / "processed_trace.pt.trace.json").read_text())
    counters = [event for event in content["traceEvents"] if event["ph"] == "C"]
    assert [(c["name"], c["args"]["Percent"]) for c in counters] == [
        ("PT Active", 50), ("PT Active", 0), ("PT Active", 20), ("PT Active", 0),
        ("PT Active", 0), ("PT Active", 0),
    ]  # fmt: skip
    original = {e["name"]: e for e in json.loads(layer.read_text())["traceEvents"]}
    assert counters[4]["ts"] == original["sdsc_relu"]["ts"]
    assert counters[5]["ts"] == original["sdsc_relu"]["ts"] + original["sdsc_relu"]["dur"]
    kernel = next(e for e in content["traceEvents"] if e["name"] == "sdsc_mm")
    assert kernel["args"]["pt_active"] == 0.5
    assert content["spyre_time_source"] == "simulated"


def test_the_analyzer_shows_101_for_an_impossible_utilisation(analyzer, tmp_path):
    trace = TraceBuilder()
    trace.kernel("fast", 0, 100, ideal_cycles=220_000)
    path, output = trace.write(tmp_path / "t.json"), tmp_path / "o.json"
    code, _, err = analyzer("-i", path, "-o", output)
    assert code == 0 and "above 100 %" in err
    counters = [e for e in json.loads(output.read_text())["traceEvents"] if e["ph"] == "C"]
    assert counters[0]["args"] == {"Percent": 101}
    analyzer("-i", path, "-o", output, "--freq", "3000:4400")
    counters = [e for e in json.loads(output.read_text())["traceEvents"] if e["ph"] == "C"]
    assert counters[0]["args"]["Percent"] == pytest.approx(50)


def test_the_analyzer_filters_events_and_uses_ideal_cycles(analyzer, layer, tmp_path):
    folder = tmp_path / "cache" / "inductor-spyre" / "sdsc_relu" / "perf"
    folder.mkdir(parents=True)
    (folder / "ideal_cycles.json").write_text('[{"ideal_cycles": 3300, "op_category": "act"}]')
    output = tmp_path / "out.json"
    code, *_ = analyzer(
        "-i", layer, "-o", output, "-c", tmp_path / "cache", "--freq", "1000:1100",
        "--event_filter", "name:^sdsc_mm$,cat:memcpy", "--time_unit", "ms", "--keep_names",
    )  # fmt: skip
    assert code == 0
    content = json.loads(output.read_text())
    names = {event["name"] for event in content["traceEvents"]}
    assert "sdsc_relu" in names and not names & {"sdsc_mm", "Memcpy (DtoH)"}
    assert content["displayTimeUnit"] == "ms"
    rows = list(csv.DictReader((tmp_path / "out_categories.csv").open()))
    assert next(row for row in rows if row["Category"] == "act")["PT_Util"] == "0.2000"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--flow"], "--flow is not supported: traces of torch.profiler have the flows"),
        (["-D", "3"], "-D is not supported"),
        (["-O", "tid"], "-O is not supported"),
        (["-C", "power_ts4"], "no records of power"),
        (["-C", "nonsense"], "none of pt_active, lx_bytes"),
        (["--freq", "fast"], "clocks in MHz"),
        (["--event_filter", "name"], "not attribute:regex"),
        (["--event_filter", "name:("], "no regex"),
        (["-f", "protobuf"], "invalid choice"),
    ],
)
def test_options_without_a_meaning_here_are_rejected_with_a_reason(analyzer, layer, words, message):
    code, out, err = analyzer("-i", layer, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_the_analyzer_explains_itself(analyzer):
    code, out, _ = analyzer("--help")
    assert code == 0 and "--event_filter" in out and "--flow" not in out
    assert analyzer("--version")[0] == 0
    assert analyzer()[0] == 2

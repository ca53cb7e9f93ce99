"""`spyre opinfo`: verdicts, crashes and output on faulty ops; and `--quick` on PyTorch's ops."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAULTY = Path(__file__).parents[1] / "helpers" / "faulty_ops.py"
FORWARD = ("--variant", "forward", "--dtype", "float32")


def environment(tmp_path):
    programs = os.environ["TORCH_SPYRE_PROGRAM_CACHE"]
    return {
        **os.environ,
        "TORCH_SPYRE_EAGER": "native",
        "TORCH_SPYRE_PROGRAM_CACHE": programs,
        "COLUMNS": "200",
        "MARKER": str(tmp_path / "marker"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("opinfo")


@pytest.fixture(scope="module")
def calls(folder):
    """Return exit code, output and op calls of several runs in one process."""
    results, report, other = (str(folder / name) for name in ("r.json", "r.html", "s.json"))
    bad = folder / "bad.json"
    bad.write_text("{}")
    files = ("--json", results, "--html", report)
    arguments = {
        "all": (*FORWARD, "--timeout", "4", "--jobs", "3", *files),
        "resumed": (*FORWARD, "--resume", *files),
        "retried": ("wrong_values", *FORWARD, "--resume", "--retry", "--json", results),
        "good": ("abs", "*_like", "--json", other),
        "one": ("wrong_values", *FORWARD, "--sample", "1", "--json", other),
        "few": ("abs", "--samples", "1", "--variant", "forward", "--json", other),
        "imprecise": ("imprecise", "--variant", "forward"),
        "unknown": ("nonsense",),
        "damaged": ("abs", "--json", str(bad), "--resume"),
        "nowhere": ("abs", "--json", str(folder / "none" / "r.json")),
        "no variant": ("abs", "--variant", "gradient"),
        "no dtype": ("abs", "--dtype", "float7"),
        "both": ("abs", "--sample", "1", "--samples", "1"),
        "resume alone": ("abs", "--resume"),
        "retry alone": ("abs", "--retry", "--json", other),
        "quick and ops": ("abs", "--quick"),
    }
    process = subprocess.run(
        [sys.executable, "-W", "ignore", FAULTY, json.dumps(list(arguments.values()))],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return dict(zip(arguments, json.loads(process.stdout), strict=True))


@pytest.fixture(scope="module")
def units(calls, folder):
    entries = json.loads((folder / "r.json").read_text())["units"]
    return {unit["op"]: unit for unit in entries}


@pytest.mark.parametrize(
    ("op", "counts"),
    [
        ("abs", {"native": 3}),
        ("crashing", {"native": 2, "crash": 1}),
        ("hanging", {"native": 2, "crash": 1}),
        ("exiting", {"crash": 3}),
        ("wrong_values", {"wrong": 3}),
        ("failing", {"wrong": 3}),
        ("partly_native", {"native": 1, "fallback": 2}),
        ("unsupported", {"refused": 3}),
        ("double", {"fallback": 3}),
        ("aliasing", {"wrong": 3}),
        ("transposed", {"native": 1, "wrong": 2}),
    ],
)
def test_every_sample_has_a_verdict_despite_crashes(units, op, counts):
    assert units[op]["counts"] == counts


@pytest.mark.parametrize(
    ("op", "index", "detail"),
    [
        ("crashing", 1, "SIGSEGV"),
        ("hanging", 1, "timed out after 4 s"),
        ("exiting", 0, "exit code 3"),
        ("wrong_values", 0, "1 of 1 elements differ; the worst at (0,): got"),
        ("failing", 2, "raised RuntimeError: not today"),
        ("unsupported", 0, "ComplexFloat"),
        ("aliasing", 0, "aliases an argument"),
        ("transposed", 1, "strides (1, 2), expected (2, 1)"),
    ],
)
def test_findings_name_the_sample_and_the_problem(units, op, index, detail):
    finding = next(entry for entry in units[op]["findings"] if entry["index"] == index)
    assert detail in finding["detail"]
    assert f"size=({index + 1},)" in finding["sample"]


def test_the_op_that_falls_back_is_named(units):
    assert units["partly_native"]["fallbacks"] == ["aten.special_bessel_j0.default"]
    assert units["partly_native"]["verdict"] == "partly"


def test_random_ops_are_marked(units):
    assert units["rand_like"]["note"].startswith("random")
    assert units["abs"]["note"] == ""


def test_trouble_is_exit_code_1_and_reported_with_a_command_that_reproduces_it(calls):
    assert calls["all"]["code"] == 1
    out = calls["all"]["out"]
    assert "crash: spyre opinfo crashing --dtype float32 --variant forward --sample 1" in out
    assert calls["good"]["code"] == 0, calls["good"]
    assert calls["one"]["code"] == 1
    assert calls["one"]["calls"] == 4  # on the CPU, the card, fake tensors, and in float64


def test_the_summary_counts_ops_and_samples(calls):
    lines = calls["all"]["out"].splitlines()
    assert next(line.split()[:4] for line in lines if "crashed the process" in line) == [
        "crash", "3", "3", "5"
    ]  # fmt: skip
    assert "native: 16.7% of ops (float32 16.7%)" in calls["all"]["out"]


def test_a_resumed_run_skips_finished_units(calls):
    assert calls["resumed"]["calls"] == 0
    assert calls["resumed"]["code"] == 1  # earlier results count
    assert calls["retried"]["calls"] == 12


def test_samples_limits_their_number(calls, folder):
    entries = json.loads((folder / "s.json").read_text())["units"]
    assert [unit["counts"] for unit in entries] == [{"native": 1}] * 2
    assert calls["few"]["calls"] == 6


def test_the_tolerance_depends_on_the_format(calls):
    """An error of 2**-10 is half a unit of float16 on the card, and thousands in float32."""
    lines = calls["imprecise"]["out"].splitlines()
    assert any(line.split()[:3] == ["native", "1", "0"] for line in lines)
    assert any(line.split()[:3] == ["wrong", "0", "1"] for line in lines)


def test_the_html_report_is_complete_and_self_contained(units, folder):
    report = (folder / "r.html").read_text()
    # The name of the namespace of SVG is no address.
    report_without_names = report.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in report_without_names and "https://" not in report_without_names
    for op in units:
        assert f"<th>{op}</th>" in report
    assert '<td class="crash"><details>' in report
    assert "not today" in report


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("unknown", "nonsense: it matches no op of PyTorch's database"),
        ("damaged", "is not a file of spyre opinfo results"),
        ("nowhere", "cannot write"),
        ("no variant", "have none of the selected dtypes and variants"),
    ],
)
def test_bad_input_is_exit_code_1_and_one_line(calls, call, message):
    assert calls[call]["code"] == 1
    assert calls[call]["err"].startswith("error: ")
    assert message in calls[call]["err"]
    assert calls[call]["err"].count("\n") == 1


@pytest.mark.parametrize(
    "call", ["no dtype", "both", "resume alone", "retry alone", "quick and ops"]
)
def test_usage_error_has_exit_code_2(calls, call):
    assert calls[call]["code"] == 2


def test_a_missing_expecttest_is_named_in_the_error(folder):
    code = (
        "import sys; sys.modules['expecttest'] = None; sys.argv = ['spyre', 'opinfo', 'abs']\n"
        "from torch_spyre.tools import cli; cli.main()"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr == (
        "error: PyTorch's op database needs the package expecttest: pip install expecttest\n"
    )


def run_opinfo(tmp_path, *options):
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "torch_spyre.tools.cli", "opinfo", "--json", str(results)]
    process = subprocess.run(
        [*command, *options], env=environment(tmp_path), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads(results.read_text())


@pytest.mark.heavy
def test_the_quick_run_has_no_trouble(tmp_path):
    document = run_opinfo(tmp_path, "--quick")
    verdicts = [entry["verdict"] for entry in document["verdicts"]]
    assert len(verdicts) == 50
    assert verdicts.count("native") >= 40

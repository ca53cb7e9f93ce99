"""The diagnostic report, and the files about failures of kernels and of the compiler."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_spyre import knobs
from torch_spyre._inductor import call_lowering
from torch_spyre.device import diagnostics

pytestmark = pytest.mark.usefixtures("kernels")


def fail(bad=12):
    """Call a kernel with an index that is out of bounds; return the message of the error."""
    table = torch.zeros(10, 64, dtype=torch.float16, device="spyre")
    index = torch.tensor([1, bad]).to("spyre")
    with pytest.raises(IndexError) as info:
        table[index].cpu()
    return str(info.value)


def path_in(message):
    _, _, path = message.partition(f"\n{diagnostics.NOTE}")
    return Path(path) if path else None


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "new" / "reports"
    with knobs.override(TORCH_SPYRE_REPORTS=str(path)):
        yield path


def test_the_report_can_be_json_and_names_versions_driver_card_and_knobs():
    with knobs.override(SENCORES=4):
        report = torch.spyre.get_diagnostic_report()
    assert json.loads(json.dumps(report)) == report
    assert {"torch", "torch_spyre", "python", "driver", "card", "knobs", "last_error"} <= set(
        report
    )
    assert report["torch"]["version"] == torch.__version__
    assert report["driver"]["mode"] == "EMU"
    assert report["card"]["cores"] == 32
    assert report["knobs"]["SENCORES"] == "4"


def test_a_report_needs_no_card_and_survives_a_bad_card_description():
    code = (
        "import json, torch\n"
        "print(json.dumps(torch.spyre.get_diagnostic_report()))\n"
        "assert not torch.spyre.is_initialized()\n"
    )
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "SPYRE_CARD": "no_such_card"},
    )
    assert out.returncode == 0, out.stderr
    report = json.loads(out.stdout)
    assert "no_such_card" in report["card"]["problem"]
    assert report["driver"]["is_started"] is False and report["last_error"] is None


def test_a_failed_kernel_writes_a_report_that_its_message_names(folder):
    message = fail()
    path = path_in(message)
    assert path.parent == folder
    report = json.loads(path.read_text())
    error = report["error"]
    assert error["kind"] == "kernel" and error["type"] == "IndexError"
    assert error["message"] in message and "index 12" in error["message"]
    assert any("table[index].cpu()" in frame for frame in error["stack"])
    assert report["card"]["cores"] == 32
    last = torch.spyre.get_diagnostic_report()["last_error"]
    assert last["report"] == str(path) and last["message"] == error["message"]


def test_old_reports_are_removed(folder, monkeypatch):
    monkeypatch.setattr(diagnostics, "MAX_REPORTS", 3)
    folder.mkdir(parents=True)
    (folder / "notes.json").write_text("{}")
    paths = [path_in(fail(bad)) for bad in (12, 13, 14, 15)]
    assert set(folder.iterdir()) == {*paths[1:], folder / "notes.json"}


@pytest.mark.parametrize("setting", ["off", "", "/dev/null/reports", "/proc/reports"])
def test_the_error_is_the_same_without_a_report(setting):
    with knobs.override(TORCH_SPYRE_REPORTS=setting):
        message = fail()
    assert path_in(message) is None
    assert "index 12 is out of range" in message
    assert torch.spyre.get_diagnostic_report()["last_error"]["report"] is None


def test_a_full_disk_hides_no_error(folder, monkeypatch):
    from torch_spyre.backend.program import program

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(program, "write_atomically", full)
    assert path_in(fail()) is None


def test_a_failure_of_the_compiler_is_reported_with_its_traceback(folder, monkeypatch):
    def broken(*args, **kwargs):
        raise KeyError("on purpose")

    monkeypatch.setattr(call_lowering, "compile_bundle", broken)
    x = torch.ones(3, 77, device="spyre")
    with pytest.warns(RuntimeWarning, match="on purpose") as warnings:
        assert torch.equal(x.expm1().cpu(), torch.ones(3, 77).expm1())
    (path,) = folder.iterdir()
    (warning,) = [entry for entry in warnings if "on purpose" in str(entry.message)]
    assert str(path) in str(warning.message)
    assert Path(warning.filename).samefile(__file__)
    error = json.loads(path.read_text())["error"]
    assert error["kind"] == "compiler" and error["type"] == "CompilerFailure"
    assert any("in broken" in frame for frame in error["stack"])


def test_a_failed_graph_is_reported_at_the_users_line(folder, monkeypatch):
    from torch_spyre._inductor import scheduling

    def broken(*args, **kwargs):
        raise KeyError("on purpose")

    monkeypatch.setattr(scheduling, "compile_bundle", broken)
    torch._dynamo.reset()
    x = torch.ones(3, 77, device="spyre")
    with (
        torch._inductor.config.patch(force_disable_caches=True),
        pytest.warns(RuntimeWarning, match="on purpose") as warnings,
    ):
        torch.compile(lambda x: x.exp2() + 1)(x)
    (warning,) = [entry for entry in warnings if "on purpose" in str(entry.message)]
    assert Path(warning.filename).samefile(__file__)
    assert len(list(folder.iterdir())) == 1


def test_reports_of_processes_do_not_collide(folder):
    paths = {path_in(fail()) for _ in range(3)}
    assert len(paths) == 3 and all(str(os.getpid()) in path.name for path in paths)

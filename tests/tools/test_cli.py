import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torch_spyre import errors, knobs
from torch_spyre.tools import cli, info_command

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for knob in knobs.all_knobs():
        monkeypatch.delenv(knob.name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def two_cards(monkeypatch):
    properties = SimpleNamespace(
        name="IBM Spyre (emulated)", type="dd2", multi_processor_count=32, total_memory=112 * 2**30
    )
    module = SimpleNamespace(
        device_count=lambda: 2,
        get_device_properties=lambda index: properties,
        mem_get_info=lambda index: ((100 + index) * 2**30, 112 * 2**30),
    )
    monkeypatch.setattr(torch, "get_device_module", lambda name: module)
    return module


def test_knobs_shows_values_and_defaults(spyre, monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK", "error")
    code, out, err = spyre("knobs")
    assert (code, err) == (0, "")
    for knob in knobs.all_knobs():
        assert knob.name in out
    assert "error (default warn)" in out
    assert "sen169 (default)" in out


def test_knobs_json_has_typed_values(spyre, monkeypatch):
    monkeypatch.setenv("SPYRE_DEVICES", "0,2")
    code, out, _ = spyre("knobs", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert rows.keys() == {knob.name for knob in knobs.all_knobs()}
    assert rows["SPYRE_DEVICES"]["value"] == [0, 2]
    assert rows["SPYRE_DEVICES"]["is_set"] is True
    assert rows["SPYRE_EMU_POISON"]["value"] is False
    assert rows["SPYRE_EMU_POISON"]["help"]


def test_knobs_shows_the_table_in_spite_of_a_bad_value_and_fails(spyre, monkeypatch):
    monkeypatch.setenv("SPYRE_EMU_THREADS", "none")
    code, out, err = spyre("knobs")
    assert code == 1
    assert "not valid" in out
    error = errors.KnobError("SPYRE_EMU_THREADS", "none", "an integer, at least 1")
    assert err == f"error: {error}\n"


def test_info_shows_versions_driver_and_cards(spyre, two_cards):
    code, out, err = spyre("info")
    assert (code, err) == (0, "")
    assert torch.__version__ in out
    for part in ("EMU", "spyre.yaml", "spyre:0", "spyre:1", "112.0 GiB", "101.0 GiB", "32"):
        assert part in out


def test_info_json(spyre, two_cards):
    code, out, _ = spyre("info", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["torch_version"] == torch.__version__
    assert report["driver"] == "EMU"
    assert report["isa"] == torch.backends.cpu.get_cpu_capability()
    assert report["problem"] is None
    assert [card["index"] for card in report["cards"]] == [0, 1]
    assert report["cards"][1]["free_memory"] == 101 * 2**30
    assert report["cards"][0]["cores"] == 32


def test_info_without_a_driver_still_reports_and_fails_in_one_line(spyre, two_cards, monkeypatch):
    def no_driver():
        raise errors.SpyreError("FLEX_DEVICE=PF asks for a hardware driver, and none was found")

    monkeypatch.setenv("FLEX_DEVICE", "PF")
    two_cards.device_count = no_driver
    code, out, err = spyre("info")
    assert code == 1
    assert "PF (FLEX_DEVICE)" in out
    assert err.startswith("error: FLEX_DEVICE=PF asks for a hardware driver")
    assert err.count("\n") == 1


def test_bad_input_is_one_line_and_code_1(spyre, two_cards, monkeypatch):
    monkeypatch.setenv("SPYRE_CARD", "granite")
    code, out, err = spyre("info")
    assert (code, out) == (1, "")
    assert err.startswith("error: card description 'granite'")
    assert err.count("\n") == 1


def test_our_error_is_unwrapped_from_torch_errors(spyre, monkeypatch):
    def fail_to_load():
        raise RuntimeError("Failed to load the backend extension") from errors.KnobError(
            "SENCORES", "x", "1"
        )

    monkeypatch.setattr(info_command, "collect", fail_to_load)
    code, _, err = spyre("info")
    assert code == 1
    assert err.startswith("error: SENCORES='x' is not valid")


def test_internal_error_prints_a_traceback(monkeypatch):
    monkeypatch.setattr(info_command, "collect", lambda: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["spyre", "info"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


@pytest.mark.parametrize(
    "words", [(), ("nonsense",), ("knobs", "--nonsense"), ("knobs", "--json", "--markdown")]
)
def test_usage_error_has_exit_code_2(spyre, words):
    assert spyre(*words)[0] == 2


def test_help_is_code_0(spyre):
    code, out, _ = spyre("--help")
    assert code == 0
    assert "info" in out and "knobs" in out


def test_the_page_can_be_written_without_the_console_script():
    out = subprocess.run(
        [sys.executable, "-m", "torch_spyre.tools.knobs_command", "--markdown"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout == (ROOT / "docs" / "knobs.md").read_text()

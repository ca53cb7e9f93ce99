import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from monitor_files import card, file_of_this_process, header

MODULE = [sys.executable, "-m", "torch_spyre.tools.cli", "smi"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "cards"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("SPYRE_SMI_DIR", str(path))
    for name in ("AIU_WORLD_SIZE", "SPYRE_DEVICES", "FLEX_DEVICE", "SPYRE_CARD"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def working_process(folder):
    """A process, this one, that executes work of 80 % utilisation of the matrix unit."""
    running = {"cores_ps": 1000, "pt_ps": 800, "ddr_ps": 250, "ddr_read_bytes": 100}
    content = header(num_cards=2)
    content += card(memory=(3 << 20, 4 << 20, 5 << 20), executing=1, running=running)
    content += card(index=4)
    with file_of_this_process(folder, content):
        yield


def test_json_has_the_published_shape(spyre, working_process):
    code, out, err = spyre("smi", "--json")
    assert (code, err) == (0, "")
    cards = json.loads(out)["cards"]
    assert [card["index"] for card in cards] == [0, 4]
    first, second = cards
    assert (first["memory_used_bytes"], first["memory_total_bytes"]) == (3 << 20, 1 << 30)
    assert first["utilization"] == {"pt": 0.8, "sfp": 0, "ddr": 0.25, "lx": 0, "ring": 0}
    assert first["busy"] == pytest.approx(1, abs=0.01)
    assert first["power_watts"] == 15 + 0.8 * 32 + 0.25 * 8
    assert first["clock_mhz"] == 1500
    (process,) = first["processes"]
    assert (process["pid"], process["memory_bytes"]) == (os.getpid(), 3 << 20)
    assert second["utilization"] == dict.fromkeys(("pt", "sfp", "ddr", "lx", "ring"), 0)
    assert second["processes"] == [] and second["power_watts"] == 15


def test_json_without_processes_lists_the_visible_cards(spyre, folder, monkeypatch):
    monkeypatch.setenv("AIU_WORLD_SIZE", "3")
    code, out, _ = spyre("smi", "--json")
    cards = json.loads(out)["cards"]
    assert code == 0 and [card["index"] for card in cards] == [0, 1, 2]
    for card_now in cards:
        assert card_now["memory_total_bytes"] == 112 * 2**30 and card_now["processes"] == []
        assert card_now["memory_used_bytes"] == card_now["busy"] == 0


def test_json_names_files_that_cannot_be_read(spyre, folder):
    with file_of_this_process(folder, b"garbage") as path:
        code, out, _ = spyre("smi", "--json")
        (skipped,) = json.loads(out)["skipped"]
        assert code == 0 and skipped == {"path": str(path), "reason": "it is too short"}


def test_csv_has_a_line_for_each_card(spyre, working_process):
    code, out, err = spyre("smi", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert (code, err, len(rows)) == (0, "", 2)
    assert (rows[0]["index"], rows[0]["pt"], rows[0]["ring"]) == ("0", "0.8000", "0.0000")
    assert rows[0]["memory_used_bytes"] == str(3 << 20)
    assert (rows[0]["pids"], rows[1]["pids"]) == (str(os.getpid()), "")


def test_table_shows_cards_and_processes(spyre, working_process):
    code, out, _ = spyre("smi")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    cards = [line for line in lines if line[:1] == ["spyre:0"]]
    assert " ".join(cards[0]) == "spyre:0 3.0 MiB 1.0 GiB 80% 0% 25% 0% 0% 100% 43 W"
    assert cards[1][1:9] == [str(os.getpid()), "3.0", "MiB", "80%", "0%", "25%", "0%", "0%"]
    assert len([line for line in lines if line[:1] == ["spyre:4"]]) == 1


def test_table_fits_80_columns_and_says_that_nobody_works(spyre, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = spyre("smi")
    assert code == 0 and "No process uses a card." in out
    assert "spyre:0" in out and "112.0 GiB" in out and "15 W" in out


def test_control_characters_of_commands_do_not_reach_the_terminal(spyre, folder, tmp_path):
    script = tmp_path / "s.py"
    script.write_text(
        "import pathlib, sys\nfrom monitor_files import *\n"
        "with file_of_this_process(pathlib.Path(sys.argv[2]), header() + card(memory=(1, 1, 1))):\n"
        "    print('up', flush=True)\n    sys.stdin.readline()\n"
    )
    program = subprocess.Popen(
        [sys.executable, str(script), "\x1b[31m[bold]red\n", str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "helpers")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    program.stdout.readline()
    _, out, _ = spyre("smi")
    assert "\x1b" not in out and "[31m[bold]red" in out
    program.communicate("\n")
    assert all(len(line) <= 200 for line in out.splitlines())


@pytest.mark.parametrize(
    "words", [("--json", "--csv"), ("--json", "--watch"), ("--count", "2"), ("--interval", "nan")]
)
def test_options_that_contradict_each_other_are_wrong_usage(spyre, folder, words):
    code, out, err = spyre("smi", *words)
    assert code == 2 and out == "" and "Traceback" not in err


def test_unsafe_folder_is_an_error(spyre, folder):
    folder.chmod(0o777)
    code, out, err = spyre("smi")
    assert (code, out) == (1, "") and "other users may write to it" in err


def test_watch_without_a_terminal_prints_one_table_after_the_other(spyre, working_process):
    code, out, _ = spyre("smi", "--watch", "--interval", "0.05", "--count", "3")
    assert code == 0 and out.count("80%") == 6


def test_watch_redraws_the_screen_and_ends_cleanly_with_ctrl_c(working_process):
    terminal, inside = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    program = subprocess.Popen(
        [*MODULE, "--watch", "--interval", "0.1"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment,
    )
    os.close(inside)
    screen = b""
    while screen.count(b"80%") < 6:  # two in each picture
        screen += os.read(terminal, 10_000)
    assert b"\x1b[?1049h" in screen  # the alternate screen
    program.send_signal(signal.SIGINT)
    code = program.wait(timeout=20)
    time.sleep(0.05)
    os.set_blocking(terminal, False)
    screen += os.read(terminal, 100_000)
    os.close(terminal)
    assert code == 0 and b"Traceback" not in screen
    assert screen.endswith(b"\x1b[?25h\x1b[?1049l")  # restored


def test_command_needs_no_torch(folder):
    code = (
        "import sys\nfrom torch_spyre.tools import cli\nsys.argv = ['spyre', 'smi', '--json']\n"
        "try:\n    cli.main()\nfinally:\n    print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.strip() == "False"

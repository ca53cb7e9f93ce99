import os
import signal
import subprocess
import sys

import pytest
from monitor_files import card, file_of_this_process, header

from torch_spyre.tools import aiu_smi

NAMES = ["ID", "Date", "Time", "hostcpu", "hostmem", "pwr", "gtemp", "busy", "pt_act"]
NAMES += ["rdmem", "wrmem", "rxpci", "txpci", "rdrdma", "wrrdma", "rsvmem"]
UNITS = ["YYYYMMDD", "HH:MM:SS", "%", "%", "W", "C", "%", "%", *["GB/s"] * 6, "MB"]
HOST_FIELDS = 5  # card, date, time, processors and memory of the host
MODULE = [sys.executable, "-m", "torch_spyre.tools.aiu_smi"]
RUNNING = {
    "cores_ps": 1000,
    "pt_ps": 800,
    "ddr_ps": 250,
    "ddr_read_bytes": 90,
    "to_host_bytes": 20,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "cards"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("SPYRE_SMI_DIR", str(path))
    for name in ("AIU_WORLD_SIZE", "SPYRE_DEVICES", "FLEX_DEVICE", "SPYRE_CARD"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Return a function that runs the command and returns exit code, lines of stdout, stderr."""

    def run_command(*words):
        monkeypatch.setattr(sys, "argv", ["aiu-smi", *words])
        with pytest.raises(SystemExit) as caught:
            aiu_smi.main()
        captured = capsys.readouterr()
        return caught.value.code, captured.out.splitlines(), captured.err

    return run_command


@pytest.fixture
def working_process(folder):
    content = header() + card(memory=(3 << 20, 4 << 20, 5 << 20), executing=1, running=RUNNING)
    with file_of_this_process(folder, content) as path:
        yield path


@pytest.mark.parametrize("command", [(), ("dmon",)])
def test_text_has_two_header_lines_and_a_row_in_every_period(run, working_process, command):
    code, lines, err = run(*command, "-d", "0.05", "-c", "3")
    assert (code, err, len(lines)) == (0, "", 5)
    assert lines[0].split() == [f"#{NAMES[0]}", *NAMES[1:]]
    assert lines[1].split() == ["#", *UNITS]
    assert len({len(line) for line in lines}) == 1  # fixed widths
    row = dict(zip(NAMES, lines[2].split(), strict=True))
    assert row["ID"] == "0" and row["busy"] == "100" and row["pt_act"] == "80"
    assert row["pwr"] == "43" and row["gtemp"] == "46"  # 15 + 0.8 * 32 + 0.25 * 8; 25 + pwr / 2
    assert (row["rdmem"], row["wrmem"], row["txpci"]) == ("90.0", "0.0", "20.0")
    assert row["rsvmem"] == "5" and row["rdrdma"] == row["wrrdma"] == "-"
    assert float(row["hostcpu"]) >= 0 and 0 < float(row["hostmem"]) <= 100


def test_csv_names_each_field_with_its_unit(run, working_process):
    code, lines, _ = run("dmon", "-s", "-d", "0.05", "-c", "2")
    assert code == 0 and len(lines) == 3 and lines[0].startswith("ID,")
    fields = lines[0].split(",")
    assert [field.split()[0] for field in fields] == NAMES
    assert [field.split()[1] for field in fields[1:]] == UNITS
    assert len(lines[1].split(",")) == len(NAMES)


def test_card_without_a_process_shows_no_metrics(run, folder, monkeypatch):
    monkeypatch.setenv("SPYRE_DEVICES", "1,3")
    _, lines, _ = run("-d", "0.05", "-c", "1", "-g", "A", "--mem-details")
    rows = [line.split() for line in lines[2:]]
    assert [row[0] for row in rows] == ["1", "3"]
    assert all(set(row[HOST_FIELDS:]) == {"-"} for row in rows)


def test_dead_workload_shows_no_metrics(run, working_process, monkeypatch):
    from torch_spyre.monitor import monitor

    num_samples = 0
    take_sample = monitor.take_sample

    def remove_at_third_sample():
        nonlocal num_samples
        num_samples += 1
        if num_samples == 3:
            os.truncate(working_process, 0)  # as if the process were another
            working_process.unlink()
        return take_sample()

    monkeypatch.setattr(monitor, "take_sample", remove_at_third_sample)
    monkeypatch.setenv("SPYRE_DEVICES", "")
    _, lines, _ = run("-d", "0.05", "-c", "3")
    rows = [line.split() for line in lines[2:]]
    assert rows[0][HOST_FIELDS + 3] == "80"
    assert set(rows[1][HOST_FIELDS:]) == set(rows[2][HOST_FIELDS:]) == {"-"}


def test_groups_select_columns_in_their_usual_order(run, working_process):
    def names(*words):
        code, lines, _ = run("-s", "-d", "0.05", "-c", "1", *words)
        assert code == 0
        return [field.split()[0] for field in lines[0].split(",")]

    assert names("-g", "M") == ["ID", "Date", "Time", "rdmem", "wrmem", "rsvmem"]
    assert names("-g", "P,M") == names("-g", "m p") == NAMES[:3] + NAMES[9:]
    assert set(names("-g", "A")) > set(NAMES)
    assert names("--mem-details") == [*NAMES, "usdmem", "pkmem", "totmem"]


def test_rows_go_to_a_file(run, working_process, tmp_path):
    path = tmp_path / "rows.csv"
    code, lines, _ = run("dmon", "-s", "-d", "0.05", "-c", "2", "-f", str(path))
    assert (code, lines) == (0, []) and len(path.read_text().splitlines()) == 3


def test_file_that_cannot_be_written_is_an_error(run, tmp_path):
    code, lines, err = run("-c", "1", "-f", str(tmp_path / "missing" / "rows"))
    assert (code, lines) == (1, []) and "No such file" in err


@pytest.mark.parametrize("words", [("-g", "X"), ("-g", ""), ("-d", "0"), ("-d", "nan"), ("top",)])
def test_wrong_usage_is_rejected(run, words):
    code, lines, err = run(*words)
    assert code == 2 and lines == [] and "Traceback" not in err


def test_files_that_cannot_be_read_are_reported_once(run, folder):
    with file_of_this_process(folder, b"garbage"):
        code, lines, err = run("-d", "0.05", "-c", "3")
    assert code == 0 and len(lines) == 5 and err.count("too short") == 1


def test_help_and_version(run):
    assert run("--help")[0] == run("dmon", "--help")[0] == 0
    assert run("--version")[1][0].startswith("aiu-smi ")


def test_ctrl_c_ends_the_stream_cleanly(working_process):
    program = subprocess.Popen(
        [*MODULE, "-d", "0.05"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(4):
        program.stdout.readline()
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=20)
    assert (program.returncode, err) == (0, "")


def test_reader_that_ends_ends_the_stream(working_process):
    command = f"{' '.join(MODULE)} -d 0.02 | head -3; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""

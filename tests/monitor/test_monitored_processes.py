"""Real processes that use cards, as a monitor in another process sees them."""

import itertools
import os
import signal
import time
from pathlib import Path

import pytest
from forked_programs import Program, ProgramServer

from torch_spyre.monitor import activity, take_sample


@pytest.fixture(scope="module")
def server():
    server = ProgramServer()
    yield server
    server.close()


@pytest.fixture
def run(server, tmp_path, monkeypatch):
    """Return a function that starts a program; its files are in a folder of this test."""
    monkeypatch.setenv("SPYRE_SMI_DIR", str(tmp_path / "cards"))
    monkeypatch.setenv("TORCH_SPYRE_EAGER", "native")
    programs = []
    numbers = itertools.count()

    def start(code):
        programs.append(Program(server, tmp_path / f"program{next(numbers)}", code))
        return programs[-1]

    yield start
    for program in programs:
        program.close()


def files(tmp_path):
    """Return the names of the files of the processes of this test."""
    folder = tmp_path / "cards"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def segments():
    return {segment.pid: segment for segment in take_sample().segments.values()}


def test_counters_of_a_process_are_those_that_it_sees_itself(run, tmp_path):
    program = run("""
torch.spyre.device_count()
say(files=0)
wait()
a = torch.ones(256, 256).half().to("spyre")
b = (a @ a).cpu()
c, d = torch.empty(1000, device="spyre"), a.clone()
del c
torch.spyre.synchronize()
say(memory=torch.spyre.memory_allocated(), peak=torch.spyre.max_memory_allocated(),
    reserved=torch.spyre.memory_reserved(), **torch.spyre.counters())
wait()
""")
    program.answer()
    assert files(tmp_path) == []  # no card is open yet
    program.go_on()
    values = program.answer()
    assert (tmp_path / "cards").stat().st_mode & 0o777 == 0o700
    (name,) = files(tmp_path)
    assert (tmp_path / "cards" / name).stat().st_mode & 0o777 == 0o600
    segment = segments()[program.pid]
    assert segment.card.name == "IBM Spyre (emulated)" and segment.card.power.board == 75
    (card,) = segment.cards
    assert card.allocated_bytes == values["memory"] >= 2 * 256 * 256 * 2
    assert (card.peak_bytes, card.reserved_bytes) == (values["peak"], values["reserved"])
    done = card.finished
    assert done.launches == values["launches"] >= 2
    assert done.cores_ps == values["device_time_ps"]  # nothing else used the memory meanwhile
    assert (done.to_device_bytes, done.to_host_bytes) == (
        values["h2d_bytes"],
        values["d2h_bytes"],
    )
    assert done.ddr_read_bytes == values["ddr_read_bytes"] + values["d2h_bytes"]
    assert done.ddr_write_bytes == values["ddr_write_bytes"] + values["h2d_bytes"]
    assert 0 < done.pt_ps < done.cores_ps and 0 < done.lx_ps < done.cores_ps
    # 2 * 256^3 FLOP at 98.304 TFLOP/s.
    assert done.pt_ps == pytest.approx(2 * 256**3 / 98.304, rel=1e-3)
    assert card.running.launches == 0 and not card.is_executing and card.executed_ns > 0
    program.end()
    assert files(tmp_path) == []  # removed at exit


WORK = """
a = torch.ones(512, 512).half().to("spyre")
work()
torch.spyre.synchronize()
say(ready=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    work()
"""


def test_two_processes_work_on_the_same_card_until_one_is_killed(run, tmp_path):
    copies = run("def work():\n    a.clone()\n" + WORK)
    matmuls = run("def work():\n    a @ a\n" + WORK)
    for program in (copies, matmuls):
        program.answer()
    before = take_sample()
    time.sleep(0.5)
    (card,) = activity(before, take_sample())
    processes = {process.pid: process for process in card.processes}
    assert processes.keys() == {copies.pid, matmuls.pid}
    assert card.index == 0 and card.allocated_bytes >= 2 * 512 * 512 * 2
    for process in processes.values():
        assert 0 < process.window.busy <= 1 and "python" in process.command
        assert process.window.amounts.launches > 0 or process.counters.is_executing
        assert 0 < process.window.utilization.ddr < 1
    # The product takes 2.7 us at the peak rate.
    assert 0.05 < processes[matmuls.pid].window.utilization.pt < 1
    assert processes[copies.pid].window.utilization.pt == 0
    assert card.card.power.idle < card.watts <= card.card.power.board

    os.kill(copies.pid, signal.SIGKILL)
    while not is_zombie(copies.pid):
        time.sleep(0.01)
    assert len(files(tmp_path)) == 2
    # It is dead, although its parent does not know yet.
    assert list(segments()) == [matmuls.pid]
    assert len(files(tmp_path)) == 1


def is_zombie(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_cards_of_one_process_are_shown_under_their_numbers_in_the_machine(run, monkeypatch):
    monkeypatch.setenv("SPYRE_DEVICES", "5,2")
    program = run("""
x = torch.ones(1 << 20).half().to("spyre:1")
say(memory=torch.spyre.memory_allocated(1))
wait()
""")
    memory = program.answer()["memory"]
    sample = take_sample()
    cards = activity(sample, sample)
    assert [card.index for card in cards] == [2, 5]
    assert [card.allocated_bytes for card in cards] == [memory, 0]
    assert [len(card.processes) for card in cards] == [1, 0]  # it has used only one of them
    program.end()


def test_forked_children_are_not_shown_and_leave_the_file_alone(run, tmp_path):
    program = run("""
x = torch.ones(64, device="spyre")
child = os.fork()
if child == 0:
    del x  # releases nothing
    say(child=os.getpid())
    wait()
    sys.exit(0)
say(ended=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
wait()
""")
    child = program.answer()["child"]
    assert child != program.pid and list(segments()) == [program.pid]
    program.go_on()
    assert program.answer() == {"ended": 0}
    assert segments()[program.pid].cards[0].allocated_bytes == 256
    os.kill(program.pid, signal.SIGKILL)
    program.reap()
    assert segments() == {} and files(tmp_path) == []


def test_child_that_was_forked_before_the_start_has_its_own_file(run, tmp_path):
    program = run("""
child = os.fork()
x = torch.ones(64, device="spyre")
if child == 0:
    say(child=os.getpid())
    wait()
    sys.exit(0)
os.waitpid(child, 0)
say(ended=True)
wait()
""")
    child = program.answer()["child"]
    while len(segments()) < 2:
        time.sleep(0.01)
    assert sorted(segments()) == sorted([program.pid, child])
    program.go_on()
    program.answer()
    assert list(segments()) == [program.pid]


def test_process_that_executes_another_program_is_not_shown(run):
    program = run("""
x = torch.ones(64, device="spyre")
say(memory=256)
wait()
os.execv("/bin/sh", ["sh", "-c", "echo 1; read line"])
""")
    program.answer()
    assert list(segments()) == [program.pid]
    program.go_on()
    assert program.answer() == 1
    assert segments() == {}


HOLD = """
x = torch.ones(64, device="spyre")
say(sum=sum(x.tolist()))
wait()
"""


def test_nothing_is_written_if_monitoring_is_off(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_SMI_DIR", "off")
    program = run(HOLD)
    assert program.answer() == {"sum": 64}
    program.end()
    assert program.errors == "" and files(tmp_path) == []


def test_processes_that_open_cards_remove_the_files_of_dead_ones(run, tmp_path):
    dead = run(HOLD)
    dead.answer()
    os.kill(dead.pid, signal.SIGKILL)
    dead.reap()
    assert len(files(tmp_path)) == 1
    program = run(HOLD)
    program.answer()
    (name,) = files(tmp_path)
    assert f"-{program.pid}-" in name


def test_folder_that_is_not_safe_is_not_used_and_the_card_works(run, tmp_path):
    (tmp_path / "cards").mkdir(mode=0o700)
    (tmp_path / "cards").chmod(0o777)
    program = run(HOLD)
    assert program.answer() == {"sum": 64}
    program.end()
    assert program.errors.count("MonitorWarning") == 1
    assert "other users may write to it" in program.errors and files(tmp_path) == []


def test_default_folder_is_in_the_runtime_folder_of_the_user(run, tmp_path, monkeypatch):
    monkeypatch.delenv("SPYRE_SMI_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    program = run(HOLD)
    program.answer()
    (path,) = (tmp_path / f"torch-spyre-{os.geteuid()}").iterdir()
    assert f"-{program.pid}-" in path.name
    assert program.pid in segments()
    program.end()
    assert not path.exists()

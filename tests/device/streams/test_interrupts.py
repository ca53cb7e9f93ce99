"""Ctrl-C stops queued and running work at once, and the process goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

# Every op runs on the card.
SETTINGS = {"TORCH_SPYRE_EAGER": "native", "SPYRE_EMU_CHECK_COUNTS": "0"}
# One matmul of `x` takes seconds on the emulated card. A process that hangs ends with a traceback.
START = """
import faulthandler, os, signal, sys, threading, torch
faulthandler.dump_traceback_later(110, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
x = torch.zeros(8192, 8192, dtype=torch.float16, device="spyre")
"""
# Runs the scenarios that it reads, one per line.
LOOP = """
def check_usable():
    assert (torch.ones(3, device="spyre") * 2).cpu().tolist() == [2.0] * 3
    assert torch.equal((small + 1).cpu(), torch.ones(64, 64).half())
def interrupted(work):
    print("ready", flush=True)
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        check_usable()
    else:
        print("finished", flush=True)
for line in sys.stdin:
    small = torch.zeros(64, 64, dtype=torch.float16, device="spyre")
    faulthandler.dump_traceback_later(110, exit=True)
    exec(eval(line))
    print("done", flush=True)
"""

WAITS = {
    "synchronize": "y = x @ x\ninterrupted(torch.spyre.synchronize)",
    "stream": "y = x @ x\ninterrupted(torch.spyre.current_stream().synchronize)",
    "event": (
        "y = x @ x; event = torch.spyre.Event(); event.record()\ninterrupted(event.synchronize)"
    ),
    "cpu": "y = x @ x\ninterrupted(lambda: y[:2].cpu())",
    "item": "y = x @ x\ninterrupted(lambda: y[0, 0].item())",
    "allocation": "def run():\n    for _ in range(40): y = x @ x\ninterrupted(run)",
    "full queue": (
        "sums = small.clone().add_(1)\ny = x @ x\n"
        "def run():\n    for _ in range(3000): sums.add_(1)\ninterrupted(run)"
    ),
    "compiled": "f = torch.compile(lambda a: a @ a)\ny = f(x)\ninterrupted(lambda: y[:2].cpu())",
    "other stream": (
        "stream = torch.spyre.Stream()\nwith torch.spyre.stream(stream): y = x @ x\n"
        "torch.spyre.current_stream().wait_stream(stream)\n"
        "interrupted(torch.spyre.current_stream().synchronize)"
    ),
    "counted": (
        "os.environ['SPYRE_EMU_CHECK_COUNTS'] = '1'\n"
        "try:\n    y = x @ x; interrupted(torch.spyre.synchronize)\n"
        "finally: os.environ['SPYRE_EMU_CHECK_COUNTS'] = '0'"
    ),
}


class Process:
    """A Python process that prints lines."""

    def __init__(self, code):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", START + code],
            env=os.environ | SETTINGS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self):
        """Return the next line; raise if the process has ended."""
        line = self.process.stdout.readline().strip()
        if not line:
            raise AssertionError(f"the process has ended: {self.process.communicate()[1]}")
        return line

    def start(self, scenario):
        """Run a scenario until it is ready to be interrupted."""
        print(repr(scenario), file=self.process.stdin, flush=True)
        assert self.line() == "ready"

    def send_interrupt(self, after=0.3):
        time.sleep(after)
        self.process.send_signal(signal.SIGINT)

    def check_interrupted(self):
        """Interrupt the process, and check that it notices soon."""
        self.send_interrupt()
        start = time.perf_counter()
        assert self.line() == "interrupted"
        assert time.perf_counter() - start < 2


@pytest.fixture(scope="module")
def start_process():
    """Return a function that returns the process of all scenarios, a new one if it has ended."""
    processes = []

    def start():
        if not processes or processes[-1].process.poll() is not None:
            processes.append(Process(LOOP))
        return processes[-1]

    yield start
    for process in processes:
        process.process.communicate()
        assert process.process.returncode == 0


@pytest.fixture
def process(start_process):
    return start_process()


@pytest.mark.parametrize("wait", WAITS)
def test_an_interrupt_ends_a_wait_and_the_card_stays_usable(wait, process):
    process.start(WAITS[wait])
    process.check_interrupted()
    assert process.line() == "done"


def test_work_can_be_interrupted_twice_and_then_completes(process):
    process.start(
        "for _ in range(2):\n    y = x @ x\n    interrupted(torch.spyre.synchronize)\n"
        "small += 1; print(float(small.sum()))"
    )
    process.check_interrupted()
    assert process.line() == "ready"
    process.check_interrupted()
    assert [process.line(), process.line()] == ["4096.0", "done"]


def test_a_handler_that_returns_lets_the_work_go_on(process):
    process.start(
        "half = torch.zeros(512, 8192, dtype=torch.float16, device='spyre'); half[0, 0] = 1.0\n"
        "x[0, 1] = 3.0; float(x[0, 1])\n"
        "signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))\n"
        "y = half @ x\nprint('ready', flush=True)\n"
        "try: torch.spyre.synchronize(); print(float(y[0, 1]))\n"
        "finally: signal.signal(signal.SIGINT, signal.default_int_handler)"
    )
    process.send_interrupt(after=0.1)
    assert [process.line() for _ in range(3)] == ["handled", "3.0", "done"]


def test_a_waiting_thread_learns_that_its_work_was_interrupted(process):
    process.start(
        "errors = []\n"
        "def wait(errors=errors):\n"
        "    try: torch.spyre.synchronize()\n"
        "    except RuntimeError as error: errors.append(error)\n"
        "y = x @ x\nthread = threading.Thread(target=wait); thread.start()\n"
        "interrupted(torch.spyre.synchronize); thread.join(); check_usable()\nprint(errors)"
    )
    process.check_interrupted()
    assert "the work was stopped: the program was interrupted" in process.line()
    assert process.line() == "done"


def test_device_time_and_memory_are_right_after_an_interrupt(process):
    process.start(
        "before, after, end = (torch.spyre.Event(enable_timing=True) for _ in range(3))\n"
        "before.record(); y = x @ x; after.record()\n"
        "interrupted(torch.spyre.synchronize)\n"
        "small += 1; end.record(); torch.spyre.synchronize()\n"
        "assert before.elapsed_time(after) > 0 and after.elapsed_time(end) > 0\n"
        "allocated = torch.spyre.memory_allocated(); del y\n"
        "assert allocated - torch.spyre.memory_allocated() == 8192 * 8192 * 2\n"
        "assert torch.spyre.memory_stats()['active_bytes.all.current']"
        " == torch.spyre.memory_allocated()"
    )
    process.check_interrupted()
    assert process.line() == "done"


def test_an_uncaught_interrupt_ends_the_process_without_waiting_for_its_work():
    process = Process("y = x @ x; z = x @ x\nprint('ready', flush=True)\nwhile True: pass")
    assert process.line() == "ready"
    start = time.perf_counter()
    process.send_interrupt(after=0)
    _, errors = process.process.communicate()
    assert process.process.returncode != 0 and "KeyboardInterrupt" in errors
    assert time.perf_counter() - start < 3

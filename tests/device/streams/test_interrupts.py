"""Ctrl-C stops queued and running work at once, and the process goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

# Every op runs on the card.
SETTINGS = {"TORCH_SPYRE_EAGER": "native", "SPYRE_EMU_CHECK_COUNTS": "0"}
# A size at which one matmul takes seconds on the emulated card.
START = """
import signal, threading, torch
signal.signal(signal.SIGINT, signal.default_int_handler)
x = torch.zeros(8192, 8192, dtype=torch.float16, device="spyre")
small = x[:64, :64].clone()
(x[:64] @ x).cpu()
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
}


class Program:
    """A Python process that prints lines."""

    def __init__(self, code, **variables):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", START + code],
            env=os.environ | SETTINGS | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self):
        return self.process.stdout.readline().strip()

    def interrupt(self, after=0.3):
        """Wait, send SIGINT, and return the next line and the seconds until it came."""
        time.sleep(after)
        start = time.perf_counter()
        self.process.send_signal(signal.SIGINT)
        return self.line(), time.perf_counter() - start

    def finish(self):
        output, errors = self.process.communicate(timeout=120)
        return output.split(), errors, self.process.returncode


def check_interrupted(program):
    assert program.line() == "ready"
    line, seconds = program.interrupt()
    assert (line, seconds < 2) == ("interrupted", True), (line, seconds)


@pytest.mark.parametrize("wait", WAITS)
def test_an_interrupt_ends_a_wait_and_the_card_stays_usable(wait):
    program = Program(WAITS[wait])
    check_interrupted(program)
    output, errors, code = program.finish()
    assert (output, code) == ([], 0), errors


def test_work_can_be_interrupted_twice_and_then_completes():
    program = Program(
        "for _ in range(2):\n    y = x @ x\n    interrupted(torch.spyre.synchronize)\n"
        "small += 1; print(float(small.sum()))"
    )
    check_interrupted(program)
    check_interrupted(program)
    output, errors, code = program.finish()
    assert (output, code) == (["4096.0"], 0), errors


def test_counted_launches_can_be_interrupted():
    program = Program(WAITS["synchronize"], SPYRE_EMU_CHECK_COUNTS="1")
    check_interrupted(program)
    output, errors, code = program.finish()
    assert (output, code) == ([], 0), errors


def test_a_handler_that_returns_lets_the_work_go_on():
    program = Program(
        "half = x[:2048]; half[0, 0] = 1.0; x[0, 1] = 3.0\n"
        "signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))\n"
        "y = half @ x\nprint('ready', flush=True)\n"
        "torch.spyre.synchronize(); print(float(y[0, 1]))"
    )
    assert program.line() == "ready"
    assert program.interrupt(after=0.1)[0] == "handled"
    output, errors, code = program.finish()
    assert (output, code) == (["3.0"], 0), errors


def test_a_waiting_thread_learns_that_its_work_was_interrupted():
    program = Program(
        "def wait():\n"
        "    try: torch.spyre.synchronize()\n"
        "    except RuntimeError as error: print(error)\n"
        "y = x @ x\nthread = threading.Thread(target=wait); thread.start()\n"
        "interrupted(torch.spyre.synchronize); thread.join(); check_usable()"
    )
    assert program.line() == "ready"
    time.sleep(0.3)
    program.process.send_signal(signal.SIGINT)
    output, errors, code = program.finish()
    assert "interrupted" in output and "stopped:" in output and code == 0, (output, errors)


def test_device_time_advances_after_an_interrupt():
    program = Program(
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
    check_interrupted(program)
    output, errors, code = program.finish()
    assert (output, code) == ([], 0), errors


def test_an_uncaught_interrupt_ends_the_process_without_waiting_for_its_work():
    program = Program(
        "for _ in range(3): small = small + 1; y = x @ x\nprint('ready', flush=True)\n"
        "while True: pass"
    )
    assert program.line() == "ready"
    start = time.perf_counter()
    program.process.send_signal(signal.SIGINT)
    _, errors, code = program.finish()
    assert code != 0 and "KeyboardInterrupt" in errors
    assert time.perf_counter() - start < 3

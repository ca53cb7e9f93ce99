"""Worker processes that may crash, hang or take too much memory without ending the run.

They are forked from a process that has imported torch and has used no card, so that a worker that
ended is replaced in milliseconds.
"""

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from fuzz.kind import Content, Kind
from fuzz.outcomes import Batch, Finished, Found, Generate, Problem, Try
from fuzz.worker import BEGAN, CPU_BEGAN, LOG, NUMBER, PREPARING, REJECTED, memory_problem, work

_fork = multiprocessing.get_context("fork")
# Seconds between two looks at the time and memory of a worker.
_POLL = 0.2
# Preparing imports modules and compiles kernels.
_PREPARING_SECONDS = 120.0
# On a machine that is busy with other work, an input has exceeded its time only if it was computing
# for this fraction of it, or if this many times the limit have passed.
_MIN_CPU_FRACTION = 0.5
_MAX_WAITING = 6.0
# Caches of plans and programs grow; a worker above this is replaced between two batches.
_RETIRING_MEGABYTES = 2048
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Slot:
    """One worker process, replaced when it ends; it runs one batch at a time."""

    def __init__(self, kinds: Mapping[str, Kind], seed: int, folder: Path) -> None:
        self.kinds, self.seed, self.folder = kinds, seed, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.process: ForkProcess | None = None
        self.connection: Connection
        self.batch: Batch | None = None
        # The first input of the batch, and how many were rejected before a worker was replaced.
        self.first = self._num_rejected = 0
        self._seconds = 0.0

    def start(self, batch: Batch, siblings: "list[Slot]") -> None:
        if self.process is not None and self._megabytes() > _RETIRING_MEGABYTES:
            self.end()
        if self.process is None:
            self._fork(siblings)
        self.batch, self.first = batch, batch.first
        self._num_rejected, self._seconds = 0, 0.0
        self.connection.send(batch)

    def _fork(self, siblings: "list[Slot]") -> None:
        self.connection, child_end = _fork.Pipe()
        inherited = [slot.connection for slot in siblings if slot.process is not None]
        self.progress = _fork.RawArray("d", [PREPARING, time.monotonic(), 0, 0])
        arguments = (child_end, [*inherited, self.connection], self.progress, self.kinds)
        self.process = _fork.Process(
            target=work, args=(*arguments, self.seed, self.folder), daemon=True
        )
        self.process.start()
        child_end.close()
        self._base = self._megabytes()

    def steps(self, siblings: "list[Slot]") -> Iterator[Found | Finished]:
        """Yield what the worker has reported, and what was wrong if it ended or must be ended."""
        assert self.batch is not None
        try:
            while self.connection.poll():
                message: Found | Finished = self.connection.recv()
                if isinstance(message, Finished):
                    message = self._whole(message)
                    self.batch = None
                    yield message
                    return
                yield message
            problem = self._exceeded()
        except (EOFError, ConnectionResetError):
            problem = self._exit_problem()
        if problem is None:
            return
        yield from self._interrupted(problem, siblings)

    def _interrupted(self, problem: Problem, siblings: "list[Slot]") -> Iterator[Found | Finished]:
        """Yield the finding of the input that ended the worker, and continue after it."""
        assert self.batch is not None
        number = int(self.progress[NUMBER])
        if number == PREPARING:
            self.kill()
            raise RuntimeError(f"{self.batch.kind} cannot be prepared: {problem.description}")
        self._num_rejected += int(self.progress[REJECTED])
        self._seconds += time.monotonic() - self.progress[BEGAN]
        self.kill()
        yield Found(self.batch.kind, number, problem)
        remaining = self.batch.after(number)
        if remaining.count:
            first, num_rejected, seconds = self.first, self._num_rejected, self._seconds
            self.start(remaining, siblings)
            self.first, self._num_rejected, self._seconds = first, num_rejected, seconds
            return
        batch = self.batch
        self.batch = None
        yield self._whole(Finished(batch, 0, 0, 0.0))

    def _whole(self, finished: Finished) -> Finished:
        """Return the report of a batch with the parts that ended workers had run."""
        batch = Batch(finished.batch.kind, self.first, finished.batch.end - self.first)
        rejected = finished.rejected + self._num_rejected
        return Finished(batch, batch.count, rejected, finished.seconds + self._seconds)

    def outcome(self, kind: str, content: Content) -> Problem | None:
        """Run one input, wait for it, and return what is wrong, or None."""
        answer: Problem | None = self._ask(Try(kind, content))
        return answer

    def generate(self, kind: str, number: int) -> Content:
        """Return input `number` of a kind, or the problem if it cannot be generated."""
        return self._ask(Generate(kind, number))

    def _ask(self, task: Try | Generate) -> Any:
        """Return the answer to a task, or the problem that ended the worker."""
        if self.process is None:
            self._fork([])
        self.progress[NUMBER], self.progress[BEGAN] = PREPARING, time.monotonic()
        self.progress[CPU_BEGAN] = self._cpu_seconds()
        self.batch = Batch(task.kind, 0, 1)
        self.connection.send(task)
        problem = None
        try:
            while problem is None and not self.connection.poll(_POLL):
                problem = self._exceeded()
            if problem is None:
                return self.connection.recv()
        except (EOFError, ConnectionResetError):
            problem = self._exit_problem()
        finally:
            self.batch = None
        self.kill()
        return problem

    def _exceeded(self) -> Problem | None:
        """Return which limit the running input exceeds, or None."""
        assert self.batch is not None
        kind = self.kinds[self.batch.kind]
        began, number = self.progress[BEGAN], self.progress[NUMBER]
        limit = _PREPARING_SECONDS if number == PREPARING else kind.seconds
        seconds = time.monotonic() - began
        is_computing = self._cpu_seconds() - self.progress[CPU_BEGAN] > _MIN_CPU_FRACTION * limit
        if seconds > (limit if is_computing else _MAX_WAITING * limit):
            return Problem("time beyond the limit", f"it did not end within {limit:g} s")
        growth = self._megabytes() - max(self._base, _RETIRING_MEGABYTES)
        return memory_problem(growth, kind) if growth > kind.megabytes else None

    def _megabytes(self) -> float:
        assert self.process is not None
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):  # it has just ended
            return 0.0
        return int(pages) * _PAGE / 2**20

    def _cpu_seconds(self) -> float:
        """Return the CPU time of the worker, as `time.process_time()` counts it there."""
        assert self.process is not None
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:  # it has just ended
            return 0.0
        # The name, in parentheses, may contain spaces.
        user, system = status.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _exit_problem(self) -> Problem:
        assert self.process is not None
        self.process.join()
        code = self.process.exitcode or 0
        status = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = (self.folder / LOG).read_text(errors="replace").strip().splitlines()
        place = next((line for line in lines if "torch_spyre" in line and "File" in line), "")
        where = re.sub(r".*/(torch_spyre/.*)\", line \d+", r"\1", place).strip()
        text = "\n".join([f"the process ended with {status}", *lines[-40:]])
        return Problem(f"{status} {where}".strip(), text)

    def end(self) -> None:
        """Close the connection, on which the process exits."""
        if self.process is not None:
            self.connection.close()
            self.process.join(timeout=10)
            self.kill()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


def wait_for(slots: list[Slot]) -> None:
    """Wait until a worker reports, or until it is time to look at their limits."""
    connections.wait([slot.connection for slot in slots if slot.batch is not None], _POLL)

"""Worker processes that may crash or hang without ending the run.

They are forked from this process after torch and its op database are imported, and before any card
is used, so that a crashed worker is replaced in milliseconds.
"""

import multiprocessing
import signal
import time
from collections.abc import Generator, Iterable
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path

from torch_spyre.opinfo import worker
from torch_spyre.opinfo.results import Outcome, Unit, UnitResult, Verdict

_fork = multiprocessing.get_context("fork")
# After this many crashes the remaining samples of a unit are skipped.
MAX_CRASHES = 3
NO_SAMPLE = -1


class Pool:
    """Runs units in worker processes; `timeout` is the time limit of a sample in seconds."""

    def __init__(self, jobs: int, timeout: float, folder: Path) -> None:
        self.jobs, self.timeout, self.folder = jobs, timeout, folder
        self._workers: list[_Worker] = []
        self._started = 0

    def run(self, units: Iterable[Unit]) -> Generator[UnitResult, None, None]:
        """Yield results as units finish. Workers are terminated when the generator is closed."""
        pending = iter(units)
        try:
            for unit in pending:
                self._start(unit)
                if len(self._workers) >= self.jobs:
                    break
            while self._workers:
                for slot in self._ready():
                    if slot.step():
                        continue
                    yield slot.result
                    next_unit = next(pending, None)
                    if next_unit is None:
                        slot.end()
                        self._workers.remove(slot)
                    else:
                        slot.assign(next_unit)
        finally:
            for slot in self._workers:
                slot.kill()

    def _start(self, unit: Unit) -> None:
        self._started += 1
        new_worker = _Worker(self, self.folder / f"worker_{self._started}.txt")
        self._workers.append(new_worker)
        new_worker.assign(unit)

    def _ready(self) -> "list[_Worker]":
        """Wait, and return the workers that have sent a message or exceeded their deadline."""
        deadline = min(slot.deadline for slot in self._workers)
        readable = connections.wait(
            [slot.connection for slot in self._workers], max(0.0, deadline - time.monotonic())
        )
        now = time.monotonic()
        return [
            slot for slot in self._workers if slot.connection in readable or slot.deadline <= now
        ]

    def open_connections(self) -> list[Connection]:
        return [slot.connection for slot in self._workers if slot.connection is not None]


class _Worker:
    """One slot of the pool, whose process is replaced when it crashes."""

    connection: Connection

    def __init__(self, pool: Pool, log: Path) -> None:
        self.pool, self.log = pool, log
        self._process: ForkProcess | None = None

    def assign(self, unit: Unit) -> None:
        self.result = UnitResult(unit)
        self._done: set[int] = set()
        self._crashes = 0
        self._send()

    def _send(self) -> None:
        self._index, self._sample, self._stage = NO_SAMPLE, "while its samples were generated", ""
        if self._process is None:
            self._fork()
        self._extend_deadline()
        self.connection.send((self.result.unit, self._done))

    def _fork(self) -> None:
        self.connection, child_end = _fork.Pipe()
        # Inherited copies of the parent's ends, which the child must close.
        parent_ends = [*self.pool.open_connections(), self.connection]
        self._process = _fork.Process(
            target=worker.work, args=(child_end, parent_ends, self.log), daemon=True
        )
        self._process.start()
        child_end.close()

    def _extend_deadline(self) -> None:
        self.deadline = time.monotonic() + self.pool.timeout

    def step(self) -> bool:
        """Process one message, or the worker's crash. Return False when the unit is done."""
        try:
            if not self.connection.poll():
                self.kill()
                return self._crashed(f"timed out after {self.pool.timeout:g} s")
            message: worker.Message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return self._crashed(self._exit_description())
        self._extend_deadline()
        match message:
            case worker.Begun(index, sample):
                self._index, self._sample, self._stage = index, sample, ""
            case worker.Stage(name):
                self._stage = name
            case worker.Ended(outcome, fallback):
                self._record(outcome)
                self.result.fallbacks.update([fallback] if fallback else [])
            case worker.Done(note, seconds, is_retiring):
                self.result.note, self.result.seconds = note, self.result.seconds + seconds
                if is_retiring:
                    self.end()
                return False
        return True

    def _record(self, outcome: Outcome) -> None:
        self.result.add(self._index, outcome, self._sample)
        self._done.add(self._index)
        self._index, self._sample = NO_SAMPLE, "between two samples"

    def _crashed(self, reason: str) -> bool:
        prefix = {"cpu": "in PyTorch's own op on the CPU: ", "card": ""}.get(self._stage, "")
        whole_unit = self._index == NO_SAMPLE
        self._record(Outcome(Verdict.CRASH, prefix + reason))
        self._crashes += 1
        if whole_unit or self._crashes >= MAX_CRASHES:
            return False
        self._send()
        return True

    def _exit_description(self) -> str:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        self._process = None
        self.connection.close()
        status = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = self.log.read_text(errors="replace").strip().splitlines() if code else []
        return " | ".join([f"the process ended with {status}", *lines[-6:]])[:800]

    def end(self) -> None:
        """Close the connection, on which the process exits."""
        if self._process is not None:
            self.connection.close()
            self._process.join(timeout=10)
            self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.connection.close()
            self._process = None

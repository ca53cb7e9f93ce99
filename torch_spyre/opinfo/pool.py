"""Worker processes that may crash or hang without ending the run.

They are forked from this process once torch and its op database are loaded, and before any card is
used: so a worker that died is replaced in milliseconds.
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
# After so many crashes the rest of a unit is left alone.
MOST_CRASHES = 3
NO_SAMPLE = -1


class Pool:
    """Runs units; `timeout` is the most seconds that a sample may take."""

    def __init__(self, jobs: int, timeout: float, folder: Path) -> None:
        self.jobs, self.timeout, self.folder = jobs, timeout, folder
        self._workers: list[_Worker] = []
        self._started = 0

    def run(self, units: Iterable[Unit]) -> Generator[UnitResult, None, None]:
        """Results as they come. Ends its workers when it is closed early, too."""
        waiting = iter(units)
        try:
            for unit in waiting:
                self._start(unit)
                if len(self._workers) >= self.jobs:
                    break
            while self._workers:
                for each in self._ready():
                    if each.step():
                        continue
                    yield each.result
                    unit_or_none = next(waiting, None)
                    if unit_or_none is None:
                        each.end()
                        self._workers.remove(each)
                    else:
                        each.take(unit_or_none)
        finally:
            for each in self._workers:
                each.kill()

    def _start(self, unit: Unit) -> None:
        self._started += 1
        new = _Worker(self, self.folder / f"worker_{self._started}.txt")
        self._workers.append(new)
        new.take(unit)

    def _ready(self) -> "list[_Worker]":
        """Those with something to say, and those whose time is over."""
        until = min(each.deadline for each in self._workers)
        heard = connections.wait(
            [each.connection for each in self._workers], max(0.0, until - time.monotonic())
        )
        now = time.monotonic()
        return [each for each in self._workers if each.connection in heard or each.deadline <= now]

    def open_connections(self) -> list[Connection]:
        return [each.connection for each in self._workers if each.connection is not None]


class _Worker:
    """One place in the pool, whose process is replaced when it dies."""

    connection: Connection

    def __init__(self, pool: Pool, log: Path) -> None:
        self.pool, self.log = pool, log
        self._process: ForkProcess | None = None

    def take(self, unit: Unit) -> None:
        self.result = UnitResult(unit)
        self._done: set[int] = set()
        self._crashes = 0
        self._send()

    def _send(self) -> None:
        self._index, self._sample, self._stage = NO_SAMPLE, "while its samples were made", ""
        if self._process is None:
            self._fork()
        self._wait_longer()
        self.connection.send((self.result.unit, self._done))

    def _fork(self) -> None:
        self.connection, theirs = _fork.Pipe()
        # Copies of the ends of our side, this one's included, which the child must not keep.
        ours = [*self.pool.open_connections(), self.connection]
        self._process = _fork.Process(
            target=worker.work, args=(theirs, ours, self.log), daemon=True
        )
        self._process.start()
        theirs.close()

    def _wait_longer(self) -> None:
        self.deadline = time.monotonic() + self.pool.timeout

    def step(self) -> bool:
        """Takes one message, or the worker's death. False when its unit is done."""
        try:
            if not self.connection.poll():
                self.kill()
                return self._died(f"no end within {self.pool.timeout:g} s")
            message: worker.Message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return self._died(self._last_words())
        self._wait_longer()
        match message:
            case worker.Begun(index, sample):
                self._index, self._sample, self._stage = index, sample, ""
            case worker.Stage(name):
                self._stage = name
            case worker.Ended(outcome, fallback):
                self._record(outcome)
                self.result.fallbacks.update([fallback] if fallback else [])
            case worker.Done(note, seconds, retires):
                self.result.note, self.result.seconds = note, self.result.seconds + seconds
                if retires:
                    self.end()
                return False
        return True

    def _record(self, outcome: Outcome) -> None:
        self.result.add(self._index, outcome, self._sample)
        self._done.add(self._index)
        self._index, self._sample = NO_SAMPLE, "between two samples"

    def _died(self, how: str) -> bool:
        where = {"cpu": "in PyTorch's own op on the CPU: ", "card": ""}.get(self._stage, "")
        whole_unit = self._index == NO_SAMPLE
        self._record(Outcome(Verdict.CRASH, where + how))
        self._crashes += 1
        if whole_unit or self._crashes >= MOST_CRASHES:
            return False
        self._send()
        return True

    def _last_words(self) -> str:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        self._process = None
        self.connection.close()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = self.log.read_text(errors="replace").strip().splitlines() if code else []
        return " | ".join([f"the process ended with {how}", *lines[-6:]])[:800]

    def end(self) -> None:
        """Lets the process end by itself."""
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

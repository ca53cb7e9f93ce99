"""The worker process: runs batches of inputs, and says in shared memory which one is running."""

import contextlib
import faulthandler
import os
import resource
import signal
import time
import warnings
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fuzz.kind import Content, Kind, chance_of, is_rejection
from fuzz.outcomes import Batch, Finished, Found, Generate, Problem, Task, Try, problem_of

# What an array in shared memory holds: the number of the running input, when it began, how many
# inputs of the batch were rejected, and the CPU time of the process when the input began.
NUMBER, BEGAN, REJECTED, CPU_BEGAN = range(4)
PREPARING = -1
LOG = "log.txt"


def work(
    connection: Connection,
    inherited: Iterable[Connection],
    progress: Any,
    kinds: Mapping[str, Kind],
    seed: int,
    folder: Path,
) -> None:
    """Run batches in a folder until the connection closes; output goes to a log in it."""
    for parent_end in inherited:  # an open copy would hide from a worker that the parent ended
        parent_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    with (folder / LOG).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        faulthandler.enable(file)
        warnings.simplefilter("ignore")
        os.chdir(folder)
        Worker(connection, progress, kinds, seed).serve()


class Worker:
    """Runs the batches that come through a connection."""

    def __init__(
        self, connection: Connection, progress: Any, kinds: Mapping[str, Kind], seed: int
    ) -> None:
        self.connection, self.progress = connection, progress
        self.kinds, self.seed = kinds, seed
        self.current = ""

    def serve(self) -> None:
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                task: Task = self.connection.recv()
                match task:
                    case Batch():
                        self.run_batch(task)
                    case Generate(name, number):
                        self.connection.send(self.generate(self.prepare(name), number))
                    case Try(name, content):
                        self.connection.send(self.run_content(name, content))

    def run_batch(self, batch: Batch) -> None:
        began = time.monotonic()
        kind = self.prepare(batch.kind)
        self.progress[REJECTED] = 0
        for number in range(batch.first, batch.end):
            problem = self.run_input(kind, number)
            if problem is not None:
                self.connection.send(Found(batch.kind, number, problem))
        rejected = int(self.progress[REJECTED])
        seconds = time.monotonic() - began
        self.connection.send(Finished(batch, batch.count, rejected, seconds))

    def prepare(self, name: str) -> Kind:
        self._begin(PREPARING)
        kind = self.kinds[name]
        if name != self.current:
            kind.prepare()
            self.current = name
        return kind

    def run_input(self, kind: Kind, number: int) -> Problem | None:
        self._begin(number)
        return self.outcome(kind, self.generate(kind, number))

    def _begin(self, number: int) -> None:
        # The times first: older ones would exceed the limit of this input.
        self.progress[BEGAN], self.progress[CPU_BEGAN] = time.monotonic(), time.process_time()
        self.progress[NUMBER] = number

    def generate(self, kind: Kind, number: int) -> Content:
        return kind.generate(chance_of(self.seed, kind.name, number))

    def run_content(self, name: str, content: Content) -> Problem | None:
        kind = self.prepare(name)
        self._begin(0)
        return self.outcome(kind, content)

    def outcome(self, kind: Kind, content: Content) -> Problem | None:
        """Run an input; return what is wrong, or None."""
        peak = _peak_megabytes()
        try:
            kind.run(content)
        except Exception as error:
            if not is_rejection(error):
                return problem_of(error)
            self.progress[REJECTED] += 1
        growth = _peak_megabytes() - peak
        if growth > kind.megabytes:
            # Later inputs count from here again.
            Path("/proc/self/clear_refs").write_text("5")
            return memory_problem(growth, kind)
        return None


def memory_problem(megabytes: float, kind: Kind) -> Problem:
    return Problem(
        "memory beyond the limit",
        f"it took {megabytes:.0f} MiB of host memory, and an input may take {kind.megabytes}",
    )


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

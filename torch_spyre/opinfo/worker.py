"""The worker process: runs units of samples and reports every step to its parent.

If the worker crashes, the parent can name the sample.
"""

import faulthandler
import functools
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from torch_spyre import _C
from torch_spyre._inductor import eager_op  # noqa: F401  (slow to import: once, before the forks)
from torch_spyre.opinfo import rules
from torch_spyre.opinfo.results import Outcome, Unit, Verdict
from torch_spyre.opinfo.run import Sample
from torch_spyre.testing.op_samples import name_of, samples_of

# Compiled programs and plans are cached; a worker with more resident memory is replaced.
MAX_KILOBYTES = 3 * 2**20


@dataclass(frozen=True)
class Begun:
    """A sample has begun. Before the first one, samples are generated."""

    index: int
    sample: str


@dataclass(frozen=True)
class Stage:
    """The sample now runs on "cpu" or "card"."""

    name: str


@dataclass(frozen=True)
class Ended:
    """A sample has ended; `fallback` is the first op that fell back, if it was determined."""

    outcome: Outcome
    fallback: str | None


@dataclass(frozen=True)
class Done:
    """A unit is done. A retiring worker accepts no other unit."""

    note: str
    seconds: float
    is_retiring: bool


Message = Begun | Stage | Ended | Done


@functools.cache
def ops() -> dict[str, OpInfo]:
    """Return the op database by name."""
    return {name_of(op): op for op in op_db}


def work(connection: Connection, inherited: Iterable[Connection], log: Path) -> None:
    """Run units until the connection closes. Output and stack traces of crashes go to `log`."""
    # While a copy of its connection is open, another worker does not notice that the parent ended.
    for parent_end in inherited:
        parent_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        faulthandler.enable(file)
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        _C._set_fallback_policy("silent")
        try:
            while True:
                unit, done = connection.recv()
                _run_unit(connection, unit, done)
        except (EOFError, BrokenPipeError):
            return  # the parent has ended or closed the connection


def _run_unit(connection: Connection, unit: Unit, done: set[int]) -> None:
    """Run the samples of a unit, except those that were done before a crash."""
    begin = time.monotonic()
    op, dtype = ops()[unit.op], getattr(torch, unit.dtype)
    needs_fallback = True
    for index, sample in _samples(op, dtype, unit):
        if index in done:
            continue
        connection.send(Begun(index, _describe(sample)))
        runner = Sample(op, dtype, unit.variant, sample, lambda name: connection.send(Stage(name)))
        try:
            outcome = runner.outcome()
        except Exception:  # in the comparison itself; reported as wrong
            outcome = Outcome(Verdict.WRONG, " | ".join(traceback.format_exc().splitlines()[-5:]))
        fallback = None
        if outcome.verdict is Verdict.FALLBACK and needs_fallback:
            needs_fallback, fallback = False, runner.first_fallback()
        connection.send(Ended(outcome, fallback))
    is_retiring = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MAX_KILOBYTES
    connection.send(Done(rules.note(op), time.monotonic() - begin, is_retiring))


def _samples(op: OpInfo, dtype: torch.dtype, unit: Unit) -> list[tuple[int, SampleInput]]:
    if unit.sample is None:
        return samples_of(op, dtype, unit.samples)
    return [
        (index, sample) for index, sample in samples_of(op, dtype, None) if index == unit.sample
    ]


def _describe(sample: SampleInput) -> str:
    return " ".join(str(sample.summary()).split()).removeprefix("SampleInput")[:500]

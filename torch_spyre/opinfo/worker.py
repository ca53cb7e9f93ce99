"""A worker process: does units of samples and tells its parent each step, so that if it dies the
parent knows at what.
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

# Compiled programs and plans are kept; a worker that has grown so large is replaced.
MOST_KILOBYTES = 3 * 2**20


@dataclass(frozen=True)
class Begun:
    """A sample. With none of them begun, samples are being made."""

    index: int
    sample: str


@dataclass(frozen=True)
class Stage:
    """Where the sample is running now: "cpu" or "card"."""

    name: str


@dataclass(frozen=True)
class Ended:
    outcome: Outcome
    fallback: str | None


@dataclass(frozen=True)
class Done:
    """With a unit. `retires` says that the worker takes no other."""

    note: str
    seconds: float
    retires: bool


Message = Begun | Stage | Ended | Done


@functools.cache
def ops() -> dict[str, OpInfo]:
    return {name_of(op): op for op in op_db}


def work(connection: Connection, others: Iterable[Connection], log: Path) -> None:
    """The main function of the process. `log` gets what it says, and its last words."""
    for other in others:  # inherited; while a copy is open, its worker does not see our parent end
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
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
                _do(connection, unit, done)
        except (EOFError, BrokenPipeError):
            return  # the parent has gone, or needs us no more


def _do(connection: Connection, unit: Unit, done: set[int]) -> None:
    """The samples of a unit, except those that were done before a worker died of one."""
    begin = time.monotonic()
    op, dtype = ops()[unit.op], getattr(torch, unit.dtype)
    names_fallback = True
    for index, sample in _samples(op, dtype, unit):
        if index in done:
            continue
        connection.send(Begun(index, _described(sample)))
        runner = Sample(op, dtype, unit.variant, sample, lambda name: connection.send(Stage(name)))
        try:
            outcome = runner.outcome()
        except Exception:  # of the comparison itself; the report carries it
            outcome = Outcome(Verdict.WRONG, " | ".join(traceback.format_exc().splitlines()[-5:]))
        fallback = None
        if outcome.verdict is Verdict.FALLBACK and names_fallback:
            names_fallback, fallback = False, runner.first_fallback()
        connection.send(Ended(outcome, fallback))
    retires = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_KILOBYTES
    connection.send(Done(rules.note(op), time.monotonic() - begin, retires))


def _samples(op: OpInfo, dtype: torch.dtype, unit: Unit) -> list[tuple[int, SampleInput]]:
    if unit.sample is None:
        return samples_of(op, dtype, unit.samples)
    return [found for found in samples_of(op, dtype, None) if found[0] == unit.sample]


def _described(sample: SampleInput) -> str:
    return " ".join(str(sample.summary()).split()).removeprefix("SampleInput")[:500]

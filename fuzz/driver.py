"""The driver: gives batches of inputs to workers, counts them, and saves what they find."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz.cases import ROOT, Case, load_case, minimised
from fuzz.kind import Kind
from fuzz.outcomes import Batch, Finished, Found, Problem
from fuzz.pool import Slot, wait_for
from fuzz.state import State, load_state

PROGRESS_SECONDS = 30.0


@dataclass(frozen=True)
class Options:
    """How long to run, and where to save. Without a limit a run lasts until it is interrupted."""

    seed: int | None = None
    minutes: float | None = None
    # Inputs of each kind, after those that earlier runs with this seed have done.
    inputs: int | None = None
    jobs: int = 1
    cases: Path = ROOT / "tests/fuzz/cases"
    state: Path = ROOT / "build/fuzz/state.json"


@dataclass
class Tally:
    """What was done with inputs of one kind; `seconds` is the time of all workers together."""

    inputs: int = 0
    rejected: int = 0
    findings: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return self.inputs / self.seconds if self.seconds else 0.0


@dataclass
class Report:
    """The result of a run: a tally of each kind, and the cases that it saved."""

    seed: int
    tallies: dict[str, Tally]
    cases: list[Path] = field(default_factory=list)

    @property
    def findings(self) -> int:
        return sum(tally.findings for tally in self.tallies.values())

    def table(self) -> str:
        lines = [f"{'kind':<12}{'inputs':>10}{'rejected':>10}{'findings':>10}{'per second':>12}"]
        lines += [
            f"{name:<12}{tally.inputs:>10}{tally.rejected:>10}{tally.findings:>10}"
            f"{tally.per_second:>12.1f}"
            for name, tally in self.tallies.items()
        ]
        total = sum(tally.inputs for tally in self.tallies.values())
        lines.append(f"{total} inputs with seed {self.seed}, {self.findings} findings")
        return "\n".join(lines)


class Driver:
    """One run over several kinds of inputs, which share the time equally."""

    def __init__(
        self, kinds: Sequence[Kind], options: Options, say: Callable[[str], None] = print
    ) -> None:
        self.kinds: Mapping[str, Kind] = {kind.name: kind for kind in kinds}
        self.options, self.say = options, say
        self.state: State = load_state(options.state, options.seed)
        # The first input that no worker has been given, and the first after the last of this run.
        self.next = {name: self.state.positions.get(name, 0) for name in self.kinds}
        self.last = {
            name: position + options.inputs if options.inputs is not None else None
            for name, position in self.next.items()
        }
        self.report = Report(self.state.seed, {name: Tally() for name in self.kinds})
        self.reserved = dict.fromkeys(self.kinds, 0.0)

    def run(self) -> Report:
        """Run until a limit is reached or the user interrupts; return what was done."""
        began = time.monotonic()
        minutes = self.options.minutes
        deadline = None if minutes is None else began + 60 * minutes
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
            self.folder = Path(folder)
            self.slots = [self._slot(f"worker_{job}") for job in range(self.options.jobs)]
            try:
                self._loop(deadline)
            except KeyboardInterrupt:
                self.say("interrupted; the next run continues here")
            finally:
                for slot in self.slots:
                    slot.kill()
                self._save_positions()
        return self.report

    def _slot(self, name: str) -> Slot:
        return Slot(self.kinds, self.state.seed, self.folder / name)

    def _loop(self, deadline: float | None) -> None:
        next_progress = time.monotonic() + PROGRESS_SECONDS
        while True:
            is_over = deadline is not None and time.monotonic() >= deadline
            for slot in self.slots:
                batch = None if slot.batch is not None or is_over else self._next_batch()
                if batch is not None:
                    slot.start(batch, self.slots)
            running = [slot for slot in self.slots if slot.batch is not None]
            if not running:
                return
            wait_for(running)
            for slot in running:
                for message in slot.steps(self.slots):
                    self._record(message)
            if time.monotonic() >= next_progress:
                self.say(self.report.table())
                next_progress = time.monotonic() + PROGRESS_SECONDS

    def _next_batch(self) -> Batch | None:
        """Return inputs of the kind that has had the least time, or None if all are done."""
        names = [name for name, last in self.last.items() if last is None or self.next[name] < last]
        if not names:
            return None
        name = min(names, key=lambda name: self.reserved[name])
        tally, count, last = self.report.tallies[name], self.kinds[name].batch, self.last[name]
        first = self.next[name]
        if last is not None:
            count = min(count, last - first)
        self.next[name] = first + count
        # Other workers take other kinds while this batch runs.
        self.reserved[name] += count / tally.per_second if tally.inputs else 1.0
        return Batch(name, first, count)

    def _record(self, message: Found | Finished) -> None:
        if isinstance(message, Finished):
            tally = self.report.tallies[message.batch.kind]
            tally.inputs += message.ran
            tally.rejected += message.rejected
            tally.seconds += message.seconds
            self.reserved[message.batch.kind] = tally.seconds
            self._save_positions()
            return
        self.report.tallies[message.kind].findings += 1
        self._save_case(message)

    def _save_case(self, found: Found) -> None:
        kind = self.kinds[found.kind]
        seed, problem = self.state.seed, found.problem
        case = Case(found.kind, seed, found.number, problem.signature, problem.description)
        if (self.options.cases / case.file_name).exists():
            return
        self.say(f"{found.kind} {found.number}: {problem.signature}")
        slot = self._slot(f"minimising_{found.kind}_{found.number}")
        try:
            case = replace(case, content=slot.generate(found.kind, found.number))
            case = minimised(case, kind, lambda smaller: slot.outcome(found.kind, smaller))
        finally:
            slot.kill()
        path = case.save(self.options.cases)
        self.report.cases.append(path)
        self.say(f"  saved as {path}")

    def _save_positions(self) -> None:
        """Save for each kind the first input that is not done: batches may end in any order."""
        firsts = [(slot.batch.kind, slot.first) for slot in self.slots if slot.batch is not None]
        for name in self.kinds:
            unfinished = [first for kind, first in firsts if kind == name]
            self.state.positions[name] = min([self.next[name], *unfinished])
        self.state.save(self.options.state)


def replay(paths: Sequence[Path], kinds: Sequence[Kind]) -> dict[Path, Problem | None]:
    """Run saved cases in a worker; return what is wrong with each, None if nothing is."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        slot = Slot({kind.name: kind for kind in kinds}, 0, Path(folder) / "replay")
        try:
            cases = {path: load_case(path) for path in paths}
            return {path: slot.outcome(case.kind, case.content) for path, case in cases.items()}
        finally:
            slot.kill()

"""Verdicts of samples, of units of work, and of ops per dtype; their JSON format."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from torch_spyre import dtype_table
from torch_spyre.errors import InputError, OutputError, ResultsError

# The version of the JSON format; to be raised with every incompatible change.
FORMAT = 1


class Verdict(StrEnum):
    """Verdicts from the best to the worst; the worst of several counts, except for `PARTLY`."""

    VOID = "void"  # nothing to compare: the CPU raises an error, too, or nothing is permuted
    REFUSED = "refused"
    NATIVE = "native"
    PARTLY = "partly"  # of an op only: some samples are native, some fall back
    FALLBACK = "fallback"
    WRONG = "wrong"
    CRASH = "crash"


MEANINGS = {
    Verdict.NATIVE: "correct, and nothing fell back to the CPU",
    Verdict.PARTLY: "correct; some samples are native, the others fall back",
    Verdict.FALLBACK: "correct, computed entirely or partly by the CPU",
    Verdict.REFUSED: "unsupported dtype or layout, with a clear error",
    Verdict.WRONG: "differs from the CPU, or raises where the CPU does not",
    Verdict.CRASH: "crashed the process, or timed out",
    Verdict.VOID: "nothing to compare: the CPU raises an error, too, or nothing is permuted",
}
TROUBLE = (Verdict.WRONG, Verdict.CRASH)
VARIANTS = ("forward", "out", "noncontiguous", "permuted", "channels_last", "gradient")
DTYPES = tuple(record.name for record in dtype_table.DTYPES if record.is_sampled)


@dataclass(frozen=True)
class Outcome:
    """The verdict of one sample, with an explanation."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, order=True)
class Unit:
    """The samples that a worker runs in a row: all, at most `samples`, or the one at `sample`."""

    op: str
    dtype: str
    variant: str
    samples: int | None = None
    sample: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.op, self.dtype, self.variant

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} {self.variant}"


@dataclass(frozen=True)
class Finding:
    """A sample to report. `spyre opinfo OP --dtype D --variant V --sample INDEX` reproduces it."""

    index: int
    verdict: Verdict
    detail: str
    sample: str


@dataclass
class UnitResult:
    """The verdicts of the samples of a unit."""

    unit: Unit
    counts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    # The first op of a sample that fell back to the CPU.
    fallbacks: set[str] = field(default_factory=set)
    # Why values are not compared as usual.
    note: str = ""
    seconds: float = 0.0

    def add(self, index: int, outcome: Outcome, sample: str) -> None:
        self.counts[outcome.verdict] += 1
        if outcome.verdict in TROUBLE or outcome.detail:
            self.findings.append(Finding(index, outcome.verdict, outcome.detail, sample))

    @property
    def verdict(self) -> Verdict:
        return combined(self.counts)


def combined(counts: Counter[Verdict]) -> Verdict:
    """Return the verdict of several samples or units."""
    for verdict in (Verdict.CRASH, Verdict.WRONG, Verdict.PARTLY):
        if counts[verdict]:
            return verdict
    if counts[Verdict.NATIVE] and counts[Verdict.FALLBACK]:
        return Verdict.PARTLY
    order = (Verdict.NATIVE, Verdict.FALLBACK, Verdict.REFUSED)
    return next((verdict for verdict in order if counts[verdict]), Verdict.VOID)


@dataclass
class Results:
    """The results of all units of a run, or of a resumed run."""

    units: dict[tuple[str, str, str], UnitResult] = field(default_factory=dict)

    def add(self, result: UnitResult) -> None:
        self.units[result.unit.key] = result

    def by_op(self) -> dict[str, dict[str, list[UnitResult]]]:
        """Return the results by op and dtype."""
        by_op: dict[str, dict[str, list[UnitResult]]] = {}
        for _, result in sorted(self.units.items()):
            by_dtype = by_op.setdefault(result.unit.op, {})
            by_dtype.setdefault(result.unit.dtype, []).append(result)
        return by_op

    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """Return the verdict of each op and dtype."""
        return {
            (op, dtype): combined(Counter(result.verdict for result in results))
            for op, by_dtype in self.by_op().items()
            for dtype, results in by_dtype.items()
        }

    def samples(self) -> Counter[Verdict]:
        return sum((result.counts for result in self.units.values()), Counter[Verdict]())

    def trouble(self) -> list[tuple[Unit, Finding]]:
        return [
            (result.unit, finding)
            for _, result in sorted(self.units.items())
            for finding in result.findings
            if finding.verdict in TROUBLE
        ]


def native_fraction(verdicts: Iterable[Verdict]) -> float:
    """Return the fraction of native verdicts among those that are neither refused nor void."""
    counts = Counter(verdicts)
    total = counts.total() - counts[Verdict.VOID] - counts[Verdict.REFUSED]
    return counts[Verdict.NATIVE] / total if total else 0.0


def to_json(results: Results) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "verdicts": [
            {"op": op, "dtype": dtype, "verdict": verdict}
            for (op, dtype), verdict in results.verdicts().items()
        ],
        "units": [
            {
                **asdict(result.unit),
                "verdict": result.verdict,
                "counts": dict(result.counts),
                "findings": [asdict(finding) for finding in result.findings],
                "fallbacks": sorted(result.fallbacks),
                "note": result.note,
                "seconds": round(result.seconds, 3),
            }
            for _, result in sorted(results.units.items())
        ],
    }


def from_json(document: dict[str, Any]) -> Results:
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']}, not {FORMAT}")
    results = Results()
    for entry in document["units"]:
        names = ("op", "dtype", "variant", "samples", "sample")
        counts = Counter({Verdict(name): int(count) for name, count in entry["counts"].items()})
        findings = [
            Finding(**{**finding, "verdict": Verdict(finding["verdict"])})
            for finding in entry["findings"]
        ]
        results.add(
            UnitResult(
                Unit(**{name: entry[name] for name in names}),
                counts,
                findings,
                set(entry["fallbacks"]),
                entry["note"],
                entry["seconds"],
            )
        )
    return results


def load(path: Path) -> Results:
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}", error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(path, problem) from error


def write(path: Path, text: str) -> None:
    """Replace a file atomically, so that an interrupted run can resume from the old file."""
    new_path = path.with_name(f"{path.name}.new")
    try:
        new_path.write_text(text, encoding="utf-8")
        os.replace(new_path, path)
    except OSError as error:
        raise OutputError(path, error) from error


def save(path: Path, results: Results) -> None:
    write(path, json.dumps(to_json(results), indent=1) + "\n")

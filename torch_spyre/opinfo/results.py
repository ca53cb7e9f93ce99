"""Verdicts: of one sample, of a unit of work, and of an op in a dtype; their form in JSON."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from torch_spyre.errors import SpyreError

# Of the JSON. To be counted up when a reader would misread what an older version wrote.
FORMAT = 1


class Verdict(StrEnum):
    """From the best to the worst: of several, the last one counts, except for `PARTLY`."""

    VOID = "void"  # nothing to compare: the CPU refuses the sample, too
    REFUSED = "refused"
    NATIVE = "native"
    PARTLY = "partly"  # of an op only: some samples are native, some fall back
    FALLBACK = "fallback"
    WRONG = "wrong"
    CRASH = "crash"


MEANINGS = {
    Verdict.NATIVE: "right, and nothing fell back to the CPU",
    Verdict.PARTLY: "right; some samples are native, the others fall back",
    Verdict.FALLBACK: "right, computed wholly or in part by the CPU",
    Verdict.REFUSED: "refused with a clear error, for want of a dtype or a layout",
    Verdict.WRONG: "differs from the CPU, or fails where the CPU does not",
    Verdict.CRASH: "ended the process, or never came to an end",
    Verdict.VOID: "nothing to compare: the CPU refuses the samples, too",
}
TROUBLE = (Verdict.WRONG, Verdict.CRASH)
VARIANTS = ("forward", "out", "noncontiguous", "gradient")
DTYPES = ("float16", "float32", "int64", "bool")


class ResultsError(SpyreError, ValueError):
    """A file of results cannot be read or written."""


@dataclass(frozen=True)
class Outcome:
    """What came of one sample."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, order=True)
class Unit:
    """Samples that one worker does in a row. `samples` None means all, `sample` one by number."""

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
    """A sample worth naming. `spyre opinfo OP --dtype D --variant V --sample INDEX` repeats it."""

    index: int
    verdict: Verdict
    detail: str
    sample: str


@dataclass
class UnitResult:
    unit: Unit
    counts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    # Ops of which the CPU had to do one first, as far as seen; why values were compared otherwise.
    fallbacks: set[str] = field(default_factory=set)
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
    """One word for several samples or units."""
    for verdict in (Verdict.CRASH, Verdict.WRONG, Verdict.PARTLY):
        if counts[verdict]:
            return verdict
    if counts[Verdict.NATIVE] and counts[Verdict.FALLBACK]:
        return Verdict.PARTLY
    order = (Verdict.NATIVE, Verdict.FALLBACK, Verdict.REFUSED)
    return next((verdict for verdict in order if counts[verdict]), Verdict.VOID)


@dataclass
class Results:
    """All units of a run, or of several that were resumed."""

    units: dict[tuple[str, str, str], UnitResult] = field(default_factory=dict)

    def add(self, result: UnitResult) -> None:
        self.units[result.unit.key] = result

    def by_op(self) -> dict[str, dict[str, list[UnitResult]]]:
        found: dict[str, dict[str, list[UnitResult]]] = {}
        for _, result in sorted(self.units.items()):
            of_dtypes = found.setdefault(result.unit.op, {})
            of_dtypes.setdefault(result.unit.dtype, []).append(result)
        return found

    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """Of each op and dtype."""
        return {
            (op, dtype): combined(Counter(result.verdict for result in results))
            for op, of_dtypes in self.by_op().items()
            for dtype, results in of_dtypes.items()
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


def native_share(verdicts: Iterable[Verdict]) -> float:
    """Of what the card can hold and the CPU can compute, how much is native."""
    counts = Counter(verdicts)
    whole = counts.total() - counts[Verdict.VOID] - counts[Verdict.REFUSED]
    return counts[Verdict.NATIVE] / whole if whole else 0.0


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


def from_json(found: dict[str, Any]) -> Results:
    if found["format"] != FORMAT:
        raise ValueError(f"its format is {found['format']}, not {FORMAT}")
    results = Results()
    for each in found["units"]:
        names = ("op", "dtype", "variant", "samples", "sample")
        counts = Counter({Verdict(name): int(count) for name, count in each["counts"].items()})
        findings = [
            Finding(**{**finding, "verdict": Verdict(finding["verdict"])})
            for finding in each["findings"]
        ]
        results.add(
            UnitResult(
                Unit(**{name: each[name] for name in names}),
                counts,
                findings,
                set(each["fallbacks"]),
                each["note"],
                each["seconds"],
            )
        )
    return results


def load(path: Path) -> Results:
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ResultsError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else error
        raise ResultsError(f"{str(path)!r} has no results of spyre opinfo: {what}") from error


def write(path: Path, text: str) -> None:
    """All of it or nothing: whoever is interrupted can resume from what was there."""
    whole = path.with_name(f"{path.name}.new")
    try:
        whole.write_text(text, encoding="utf-8")
        os.replace(whole, path)
    except OSError as error:
        raise ResultsError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def save(path: Path, results: Results) -> None:
    write(path, json.dumps(to_json(results), indent=1) + "\n")

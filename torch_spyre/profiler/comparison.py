"""Two traces side by side: what takes how much longer, or less, in the second."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch_spyre.profiler.summary import Summary


@dataclass(frozen=True)
class ComparedRow:
    """The calls and the device time, in microseconds, of one name in two traces."""

    name: str
    calls: tuple[int, int]
    times: tuple[float, float]

    @property
    def change(self) -> float:
        return self.times[1] - self.times[0]

    @property
    def ratio(self) -> float | None:
        """Return the second time relative to the first, or None if the first is 0."""
        return self.times[1] / self.times[0] if self.times[0] else None


@dataclass(frozen=True)
class Comparison:
    """Rows of totals, and of work and ops by name; the largest changes first."""

    files: tuple[str, str]
    totals: Sequence[ComparedRow]
    work: Sequence[ComparedRow]
    ops: Sequence[ComparedRow]


Entries = Iterable[tuple[str, int, float]]


def compare(first: Summary, second: Summary) -> Comparison:
    """Compare two traces by the names of their kernels, copies and ops."""
    return Comparison(
        files=(str(first.trace.path), str(second.trace.path)),
        totals=_joined(_totals(first), _totals(second), is_sorted=False),
        work=_joined(_work(first), _work(second)),
        ops=_joined(_ops(first), _ops(second)),
    )


def _work(summary: Summary) -> Entries:
    return [(row.name, row.times.count, row.times.total) for row in summary.work]


def _ops(summary: Summary) -> Entries:
    return [(row.name, row.calls, row.device_self) for row in summary.ops if row.device_self]


def _totals(summary: Summary) -> Entries:
    num_work = sum(row.times.count for row in summary.work)
    yield "all work", num_work, summary.device_time
    for part in ("elapsed", "compute", "communication_only", "memory_only", "idle"):
        time = sum(getattr(card.breakdown, part) for card in summary.cards)
        yield part.replace("_", " "), len(summary.cards), time


def _joined(first: Entries, second: Entries, is_sorted: bool = True) -> list[ComparedRow]:
    sums: dict[str, list[tuple[int, float]]] = {}
    for side, entries in enumerate((first, second)):
        for name, calls, time in entries:
            values = sums.setdefault(name, [(0, 0.0), (0, 0.0)])
            values[side] = (values[side][0] + calls, values[side][1] + time)
    rows = [ComparedRow(name, (a[0], b[0]), (a[1], b[1])) for name, (a, b) in sums.items()]
    return sorted(rows, key=lambda row: (-abs(row.change), row.name)) if is_sorted else rows


def to_json(comparison: Comparison) -> Mapping[str, Any]:
    def row_json(row: ComparedRow) -> dict[str, Any]:
        return asdict(row) | {"change": row.change, "ratio": row.ratio}

    return {
        "files": list(comparison.files),
        "totals": [row_json(row) for row in comparison.totals],
        "work": [row_json(row) for row in comparison.work],
        "ops": [row_json(row) for row in comparison.ops],
    }

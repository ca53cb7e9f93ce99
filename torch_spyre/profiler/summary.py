"""The summary of a trace, which every report shows, and its JSON form."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch_spyre.profiler.breakdown import Breakdown, breakdowns
from torch_spyre.profiler.durations import Statistics, statistics_of
from torch_spyre.profiler.kernels import (
    CategoryRow,
    WorkRow,
    category_rows,
    pt_utilisation,
    work_rows,
)
from torch_spyre.profiler.ownership import OwnerRow, Ownership
from torch_spyre.profiler.program_places import PlaceRow, line_rows, module_rows
from torch_spyre.profiler.trace import Clock, HostKind, Trace, WorkKind
from torch_spyre.profiler.utilisation import UtilisationSource

_WAIT_WORDS = ("wait", "synchronize")


@dataclass(frozen=True)
class CardSummary:
    """The work of one card."""

    card: int
    name: str
    num_kernels: int
    num_copies: int
    breakdown: Breakdown
    pt_utilisation: float | None  # of the kernels' time
    peak_bytes: int | None  # if memory was profiled


@dataclass(frozen=True)
class Summary:
    """Everything that a trace says about time."""

    trace: Trace
    cards: Sequence[CardSummary]
    work: Sequence[WorkRow]
    categories: Sequence[CategoryRow]
    ops: Sequence[OwnerRow]
    scopes: Sequence[OwnerRow]
    modules: Sequence[OwnerRow]
    lines: Sequence[PlaceRow]
    kernel_modules: Sequence[PlaceRow]
    launch_delay: Statistics | None
    host_waits: Statistics | None
    ownership: Ownership
    notes: Sequence[str]

    @property
    def device_time(self) -> float:
        return sum(row.times.total for row in self.work)


def summarize(trace: Trace, source: UtilisationSource | None = None) -> Summary:
    """Compute the summary of a trace."""
    source = source or UtilisationSource()
    ownership = Ownership(trace)
    work = work_rows(trace, source)
    delays = [entry.begin - entry.launch for entry in trace.work if entry.launch is not None]
    waits = [event.duration for event in trace.host if _is_wait(event.kind, event.name)]
    notes = list(trace.notes)
    num_exceeding = sum(row.num_exceeding for row in work)
    if num_exceeding:
        notes.append(
            f"{num_exceeding} kernels have ideal times above their times (PT utilisation above "
            "100 %), which is impossible: their utilisation is left out"
        )
    return Summary(
        trace=trace,
        cards=[_card_summary(trace, entry, source) for entry in breakdowns(trace)],
        work=work,
        categories=category_rows(trace, source),
        ops=ownership.ops(),
        scopes=ownership.scopes(),
        modules=ownership.modules(),
        lines=line_rows(trace),
        kernel_modules=module_rows(trace),
        launch_delay=statistics_of(delays),
        host_waits=statistics_of(waits),
        ownership=ownership,
        notes=notes,
    )


def _is_wait(kind: HostKind, name: str) -> bool:
    return kind is HostKind.CALL and any(word in name.lower() for word in _WAIT_WORDS)


def _card_summary(trace: Trace, breakdown: Breakdown, source: UtilisationSource) -> CardSummary:
    work = [entry for entry in trace.work if entry.card == breakdown.card]
    kernels = [entry for entry in work if entry.kind is WorkKind.KERNEL]
    return CardSummary(
        card=breakdown.card,
        name=trace.card_names.get(breakdown.card, ""),
        num_kernels=len(kernels),
        num_copies=len(work) - len(kernels),
        breakdown=breakdown,
        pt_utilisation=pt_utilisation(kernels, source)[0],
        peak_bytes=trace.peak_bytes.get(breakdown.card),
    )


def to_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as JSON values. Times are microseconds, shares 0 to 1."""
    trace = summary.trace
    return {
        "file": str(trace.path),
        "clock": str(trace.clock),
        "is_simulated": trace.is_simulated,
        "notes": list(summary.notes),
        "device_time_us": summary.device_time,
        "cards": [_card_json(card) for card in summary.cards],
        "work": [_work_json(row) for row in summary.work],
        "categories": [asdict(row) for row in summary.categories],
        "ops": [asdict(row) for row in summary.ops],
        "scopes": [asdict(row) for row in summary.scopes],
        "modules": [asdict(row) for row in summary.modules],
        "lines": [asdict(row) for row in summary.lines],
        "kernel_modules": [asdict(row) for row in summary.kernel_modules],
        "launch_delay_us": _statistics_json(summary.launch_delay),
        "host_waits_us": _statistics_json(summary.host_waits),
    }


def _statistics_json(statistics: Statistics | None) -> Mapping[str, Any] | None:
    return None if statistics is None else asdict(statistics)


def _card_json(card: CardSummary) -> dict[str, Any]:
    breakdown = card.breakdown
    times = {
        part: getattr(breakdown, part)
        for part in ("elapsed", "compute", "communication_only", "memory_only", "idle")
    }
    return {
        "card": card.card,
        "name": card.name,
        "num_kernels": card.num_kernels,
        "num_copies": card.num_copies,
        "times_us": times,
        "communication_overlap": breakdown.communication_overlap,
        "memory_overlap": breakdown.memory_overlap,
        "idle_by_cause_us": {str(c): time for c, time in breakdown.idle_by_cause().items()},
        "num_gaps": len(breakdown.gaps),
        "pt_utilisation": card.pt_utilisation,
        "peak_bytes": card.peak_bytes,
    }


def _work_json(row: WorkRow) -> dict[str, Any]:
    values = asdict(row)
    values["kind"] = str(row.kind)
    values["times_us"] = values.pop("times")
    values["bandwidth_gb_per_second"] = row.bandwidth
    return values


def clock_text(trace: Trace) -> str:
    """Return a sentence about the times of a trace, for reports."""
    if trace.clock is Clock.CARD:
        return "Times are on the clock of the card, which the timing model advances."
    if trace.is_simulated:
        return (
            "Times are on the host's clock, while the emulator runs slower than the card: gaps "
            "between kernels are those of the emulation."
        )
    return "Times are on the host's clock."

"""Divides the time of a card: computing, communicating, moving memory, or idle.

All parts are of the span from the card's first to its last work, and their sum is that span.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from torch_spyre.profiler.intervals import Interval, difference, intersection, length, union
from torch_spyre.profiler.trace import Trace, Work, WorkKind


class GapCause(StrEnum):
    """The cause of idle time of a card."""

    HOST = "host"  # the host had submitted no work
    DEVICE = "device"  # submitted work did not start
    UNKNOWN = "unknown"  # the trace does not show when the next work was launched


@dataclass(frozen=True)
class Gap:
    """A time in which a card does nothing, between two of its works."""

    begin: float
    end: float
    cause: GapCause
    before: str
    after: str

    @property
    def duration(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class Breakdown:
    """The times of a card in microseconds.

    `compute` is the union of its kernels; what remains of the union of communication, and then of
    copies and fills, is `communication_only` and `memory_only`.
    """

    card: int
    begin: float
    end: float
    compute: float
    communication_only: float
    memory_only: float
    idle: float
    communication: float
    memory: float
    communication_overlap: float | None  # the share of communication that kernels hide
    memory_overlap: float | None
    gaps: Sequence[Gap]

    @property
    def elapsed(self) -> float:
        return self.end - self.begin

    def idle_by_cause(self) -> dict[GapCause, float]:
        return {
            cause: sum(gap.duration for gap in self.gaps if gap.cause is cause)
            for cause in GapCause
        }


def breakdowns(trace: Trace) -> list[Breakdown]:
    """Return the breakdown of each card that has work, in order."""
    cards = sorted({work.card for work in trace.work})
    return [_breakdown(card, [work for work in trace.work if work.card == card]) for card in cards]


def _breakdown(card: int, work: Sequence[Work]) -> Breakdown:
    compute = _union_of(work, WorkKind.KERNEL)
    communication = _union_of(work, WorkKind.COMMUNICATION)
    memory = _union_of(work, WorkKind.COPY, WorkKind.FILL)
    communication_only = difference(communication, compute)
    memory_only = difference(difference(memory, compute), communication)
    begin, end = min(entry.begin for entry in work), max(entry.end for entry in work)
    idle = difference([(begin, end)] if begin < end else [], _union_of(work, *WorkKind))
    return Breakdown(
        card=card,
        begin=begin,
        end=end,
        compute=length(compute),
        communication_only=length(communication_only),
        memory_only=length(memory_only),
        idle=length(idle),
        communication=length(communication),
        memory=length(memory),
        communication_overlap=_overlap(compute, communication),
        memory_overlap=_overlap(compute, memory),
        gaps=_gaps(idle, work),
    )


def _union_of(work: Sequence[Work], *kinds: WorkKind) -> list[Interval]:
    return union((entry.begin, entry.end) for entry in work if entry.kind in kinds)


def _overlap(compute: list[Interval], hidden: list[Interval]) -> float | None:
    total = length(hidden)
    return length(intersection(compute, hidden)) / total if total else None


def _gaps(idle: Sequence[Interval], work: Sequence[Work]) -> list[Gap]:
    """Return the idle intervals with their cause; `work` is sorted by begin."""
    gaps, position = [], 0
    last = work[0]
    for begin, end in idle:
        while work[position].begin < end:
            if work[position].end >= last.end:
                last = work[position]
            position += 1
        gaps.append(Gap(begin, end, _cause(begin, work[position]), last.name, work[position].name))
    return gaps


def _cause(begin: float, following: Work) -> GapCause:
    if following.submitted is None:
        return GapCause.UNKNOWN
    return GapCause.DEVICE if following.submitted <= begin else GapCause.HOST

"""Tables of the work of cards: by name, and by category of the ops."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_spyre.profiler.durations import Statistics, statistics_of
from torch_spyre.profiler.program_places import places_of
from torch_spyre.profiler.trace import Trace, Work, WorkKind
from torch_spyre.profiler.trace_file import number
from torch_spyre.profiler.utilisation import UtilisationSource, exceeds_peak

UNITS = ("pt", "sfp", "ddr", "lx", "ring")
STATES = ("busy", "stalled", "idle")
# Categories of kernels in which upstream's tables always have a row.
DATA_TRANSFER = "StcdpHbm"


@dataclass(frozen=True)
class WorkRow:
    """All work of one kind and name, on all cards.

    `utilisations` are means over time, of the kernels that state them. `num_exceeding` counts the
    kernels whose ideal time is longer than their time: they have no utilisation.
    """

    kind: WorkKind
    name: str
    category: str
    times: Statistics
    share: float  # of the time of all work
    utilisations: Mapping[str, float]
    num_exceeding: int
    bound_by: str
    op: str
    # The lines of the program that it comes from, `file:line`, if kernels state them.
    lines: Sequence[str]
    num_bytes: float | None
    cores: int | None
    lx_peak_bytes: float | None
    # Cycles by unit and state; for each unit they add up to the cycles of the kernels.
    unit_cycles: Mapping[str, Mapping[str, float]]

    @property
    def bandwidth(self) -> float | None:
        """Return GB/s, or None if bytes or times are not known."""
        if self.num_bytes is None or not self.times.total:
            return None
        return self.num_bytes / (self.times.total * 1000)


def work_rows(trace: Trace, source: UtilisationSource) -> list[WorkRow]:
    """Return the rows of all kernels, copies and fills; those that take most time first."""
    groups: dict[tuple[WorkKind, str], list[Work]] = defaultdict(list)
    for work in trace.work:
        groups[work.kind, work.name].append(work)
    total = sum(work.duration for work in trace.work)
    rows = [_row(kind, name, group, total, source) for (kind, name), group in groups.items()]
    return sorted(rows, key=lambda row: (-row.times.total, row.name))


def _row(
    kind: WorkKind, name: str, group: Sequence[Work], total: float, source: UtilisationSource
) -> WorkRow:
    times = statistics_of([work.duration for work in group])
    assert times is not None, "a group has at least one work"
    bounds = [str(work.arguments["bound_by"]) for work in group if "bound_by" in work.arguments]
    utilisations = {
        unit: mean for unit in UNITS[1:] if (mean := _mean_utilisation(group, unit)) is not None
    }
    pt, num_exceeding = pt_utilisation(group, source)
    num_bytes, cores = _numbers(group, "bytes"), _largest(group, "cores")
    return WorkRow(
        kind=kind,
        name=name,
        category=source.category(group[0]),
        times=times,
        share=times.total / total if total else 0.0,
        utilisations=({} if pt is None else {"pt": pt}) | utilisations,
        num_exceeding=num_exceeding,
        bound_by=max(bounds, key=bounds.count, default=""),
        op=str(group[0].arguments.get("op", "")),
        lines=places_of(group, "source"),
        num_bytes=sum(num_bytes) if num_bytes else None,
        cores=None if cores is None else int(cores),
        lx_peak_bytes=_largest(group, "lx_peak_bytes"),
        unit_cycles=_unit_cycles(group),
    )


def pt_utilisation(group: Sequence[Work], source: UtilisationSource) -> tuple[float | None, int]:
    """Return ideal time / time of the kernels that have both, and how many exceed the peak."""
    ideal = spent = 0.0
    num_exceeding = 0
    for work in group:
        ideal_us = source.ideal_us(work)
        if ideal_us is None or not work.duration:
            continue
        if exceeds_peak(ideal_us, work.duration):
            num_exceeding += 1
            continue
        ideal += ideal_us
        spent += work.duration
    return (ideal / spent if spent else None), num_exceeding


def _mean_utilisation(group: Sequence[Work], unit: str) -> float | None:
    used = spent = 0.0
    for work in group:
        share = number(work.arguments.get(f"{unit}_util"))
        if share is not None and 0 <= share <= 1:
            used += share * work.duration
            spent += work.duration
    return used / spent if spent else None


def _numbers(group: Sequence[Work], argument: str) -> list[float]:
    values = (number(work.arguments.get(argument)) for work in group)
    return [value for value in values if value is not None]


def _largest(group: Sequence[Work], argument: str) -> float | None:
    return max(_numbers(group, argument), default=None)


def _unit_cycles(group: Sequence[Work]) -> dict[str, dict[str, float]]:
    totals: dict[str, dict[str, float]] = {}
    for work in group:
        recorded = work.arguments.get("unit_cycles")
        if not isinstance(recorded, dict):
            continue
        for unit in UNITS:
            states = recorded.get(unit)
            if not isinstance(states, dict):
                continue
            sums = totals.setdefault(unit, dict.fromkeys(STATES, 0.0))
            for state in STATES:
                sums[state] += number(states.get(state)) or 0.0
    return totals


@dataclass(frozen=True)
class CategoryRow:
    """The kernels of a card with ops of one category, as upstream's category tables have them."""

    card: int
    category: str
    kernel_time: float
    share: float
    calls: int
    ideal_time: float
    ideal_cycles: float
    ideal_share: float
    utilisation: float  # ideal time / kernel time

    @property
    def is_total(self) -> bool:
        return self.category == "Total"


def category_rows(trace: Trace, source: UtilisationSource) -> list[CategoryRow]:
    """Return the rows of each card, which end with its `Total`.

    A kernel whose ideal time is longer than its time adds no ideal time.
    """
    rows = []
    for card in sorted({work.card for work in trace.work}):
        kernels = [w for w in trace.work if w.card == card and w.kind is WorkKind.KERNEL]
        groups: dict[str, list[Work]] = {DATA_TRANSFER: []}
        for work in kernels:
            groups.setdefault(source.category(work), []).append(work)
        totals = [_ideal(kernels, source), sum(work.duration for work in kernels)]
        for category in sorted(groups):
            rows.append(_category_row(card, category, groups[category], source, *totals))
        rows.append(_category_row(card, "Total", kernels, source, *totals))
    return rows


def _ideal(group: Sequence[Work], source: UtilisationSource) -> float:
    ideals = ((source.ideal_us(work) or 0.0, work.duration) for work in group)
    return sum(ideal for ideal, duration in ideals if not exceeds_peak(ideal, duration))


def _category_row(
    card: int,
    category: str,
    group: Sequence[Work],
    source: UtilisationSource,
    total_ideal: float,
    total_time: float,
) -> CategoryRow:
    time, ideal = sum(work.duration for work in group), _ideal(group, source)
    return CategoryRow(
        card=card,
        category=category,
        kernel_time=time,
        share=time / total_time if total_time else 0.0,
        calls=len(group),
        ideal_time=ideal,
        ideal_cycles=sum(source.ideal_cycles(work) for work in group),
        ideal_share=ideal / total_ideal if total_ideal else 0.0,
        utilisation=ideal / time if time else 0.0,
    )

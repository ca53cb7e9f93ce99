"""The device time by the lines and modules of the program that kernels come from.

A kernel states them itself, so this needs no stacks, and tells apart what a compiled graph, whose
kernels all belong to one call of the host, consists of.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from torch_spyre.profiler.trace import Trace, Work, WorkKind

_SEPARATOR = ", "


@dataclass(frozen=True)
class PlaceRow:
    """The time of the kernels that come from a line or a module, in microseconds.

    `alone` is that of the kernels that come from nothing else: fused kernels have several lines.
    """

    name: str
    kernels: int
    alone: float
    total: float


def line_rows(trace: Trace) -> list[PlaceRow]:
    """Return the lines that kernels come from, `file:line`; most time first."""
    return _rows(trace.work, "source")


def module_rows(trace: Trace) -> list[PlaceRow]:
    """Return the modules that kernels come from, as in `named_modules()`; most time first."""
    return _rows(trace.work, "module")


def places_of(work: Iterable[Work], argument: str) -> tuple[str, ...]:
    """Return the values that an argument lists, each once."""
    values = (entry.arguments.get(argument) for entry in work)
    texts = (value for value in values if isinstance(value, str))
    names = (name.strip() for text in texts for name in text.split(_SEPARATOR))
    return tuple(dict.fromkeys(name for name in names if name))


def short_places(places: Sequence[str]) -> str:
    """Return the first of some lines without its folder, and how many more there are."""
    if not places:
        return ""
    more = f" +{len(places) - 1}" if len(places) > 1 else ""
    return f"{PurePath(places[0]).name}{more}"


def _rows(work: Sequence[Work], argument: str) -> list[PlaceRow]:
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for entry in work:
        if entry.kind is WorkKind.KERNEL:
            places = places_of([entry], argument)
            for place in places:
                groups[place].append((entry.duration, len(places) == 1))
    rows = [
        PlaceRow(
            place,
            len(times),
            sum(time for time, is_alone in times if is_alone),
            sum(time for time, _ in times),
        )
        for place, times in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.total, row.name))

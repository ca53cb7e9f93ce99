"""Shows summaries of traces as one HTML page with pictures."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import PurePath

from torch_spyre.html_pages import (
    Bar,
    Cell,
    Frame,
    Part,
    Row,
    Span,
    bars,
    filter_box,
    flame,
    page,
    table,
    timeline,
)
from torch_spyre.profiler import formatting
from torch_spyre.profiler.comparison import ComparedRow, Comparison
from torch_spyre.profiler.kernels import STATES, UNITS, WorkRow
from torch_spyre.profiler.ownership import Node, OwnerRow, device_time_tree
from torch_spyre.profiler.program_places import PlaceRow, places_of
from torch_spyre.profiler.summary import CardSummary, Summary, clock_text
from torch_spyre.profiler.trace import Work, WorkKind

MAX_SPANS = 4000
MAX_BARS = 15
_SPAN_ARGUMENTS = ("pt_util", "ddr_util", "bound_by", "cores", "bytes", "op", "aten", "module")
_US = 1e-6
_PARTS = ("compute", "communication only", "memory only", "idle")


def html_page(
    summaries: Sequence[Summary], comparison: Comparison | None = None, data: str = ""
) -> str:
    """Return the page of some traces; `data` is their JSON form, which is embedded."""
    parts = []
    for index, summary in enumerate(summaries):
        parts += _sections(summary, str(index))
    if comparison is not None:
        parts += _comparison(comparison)
    names = ", ".join(summary.trace.path.name for summary in summaries)
    return page(f"Profile of {names}", parts, data=data)


def _sections(summary: Summary, suffix: str) -> list[str]:
    trace = summary.trace
    parts = [f"<h2>{escape(str(trace.path))}</h2>", f"<p>{escape(clock_text(trace))}</p>"]
    parts += [f'<p class="note">{escape(note)}</p>' for note in summary.notes]
    if summary.cards:
        parts += ["<h3>Where the time goes</h3>", breakdown_picture(summary.cards)]
        parts += [_gaps(summary.cards, suffix), "<h3>Timeline</h3>", timeline_picture(summary)]
        parts += ["<h3>Device time by scope, module, op and kernel</h3>", flame_picture(summary)]
        parts += ["<h3>Kernels</h3>", kernel_picture(summary.work)]
        parts += [_unit_picture(summary.work), filter_box(f"work{suffix}")]
        parts += [_work_table(summary.work, f"work{suffix}")]
    for title, places, name in (
        ("Lines of kernels", summary.lines, "lines"),
        ("Modules of kernels", summary.kernel_modules, "kernel-modules"),
    ):
        if places:
            parts += [f"<h3>{title}</h3>", _place_table(places, name + suffix)]
    for title, rows, name in (
        ("Ops", summary.ops, "ops"),
        ("Scopes", summary.scopes, "scopes"),
        ("Modules", summary.modules, "modules"),
    ):
        if rows:
            parts += [f"<h3>{title}</h3>", _owner_table(rows, name + suffix)]
    return parts


def breakdown_picture(cards: Sequence[CardSummary]) -> str:
    """Return a bar for each card, of the parts of its time."""
    entries = []
    for card in cards:
        times = card.breakdown
        values = (times.compute, times.communication_only, times.memory_only, times.idle)
        parts = [
            Part(
                value * _US,
                name,
                f"{name}: {formatting.time(value)}, "
                f"{formatting.share(value / times.elapsed if times.elapsed else None)}",
            )
            for name, value in zip(_PARTS, values, strict=True)
        ]
        pt = formatting.share(card.pt_utilisation)
        text = f"{formatting.time(times.elapsed)}, PT utilisation of kernels {pt}"
        entries.append(Bar(f"card {card.card} {card.name}".strip(), parts, text))
    return bars(entries, "s", groups=_PARTS)


def _gaps(cards: Sequence[CardSummary], suffix: str) -> str:
    gaps = [(card.card, gap) for card in cards for gap in card.breakdown.gaps]
    longest = sorted(gaps, key=lambda entry: -entry[1].duration)[:MAX_BARS]
    if not longest:
        return ""
    heads = ["Idle time", "Card", "At", "Cause", "After", "Before"]
    rows: list[list[Cell | str]] = [
        [
            Cell(formatting.time(gap.duration), sort=gap.duration),
            str(card),
            Cell(formatting.time(gap.begin), sort=gap.begin),
            str(gap.cause),
            gap.before,
            gap.after,
        ]
        for card, gap in longest
    ]
    return f"<h3>Longest idle times</h3>{table(f'gaps{suffix}', heads, rows)}"


def timeline_picture(summary: Summary) -> str:
    """Return the streams of all cards as rows.

    Of long traces it shows the longest events.
    """
    trace = summary.trace
    shown = sorted(trace.work, key=lambda work: -work.duration)[:MAX_SPANS]
    shown.sort(key=lambda work: (work.card, work.stream, work.begin))
    rows = [
        Row(f"card {card}, stream {stream}", [_span(work) for work in group])
        for (card, stream), group in groupby(shown, key=lambda work: (work.card, work.stream))
    ]
    note = ""
    if len(shown) < len(trace.work):
        note = f'<p class="quiet">The {len(shown)} longest of {len(trace.work)} are shown.</p>'
    return timeline(rows, "s", groups=[kind.value for kind in WorkKind]) + note


def _span(work: Work) -> Span:
    lines = [work.name, formatting.time(work.duration)]
    for argument in _SPAN_ARGUMENTS:
        if argument in work.arguments:
            lines.append(f"{argument}: {work.arguments[argument]}")
    places = places_of([work], "source")
    if places:
        lines.append(f"from: {', '.join(PurePath(place).name for place in places)}")
    text = "\n".join(lines)
    return Span(work.begin * _US, work.end * _US, work.name, text, work.kind.value)


def flame_picture(summary: Summary) -> str:
    """Return the device time as nested rectangles: scopes, modules, ops, kernels."""
    return flame(_frame(device_time_tree(summary.ownership)), "s", narrowest=5e-4)


def _frame(node: Node) -> Frame:
    children = sorted(node.children.values(), key=lambda child: -child.time)
    return Frame(node.name, node.time * _US, [_frame(child) for child in children], "", node.group)


def kernel_picture(rows: Sequence[WorkRow]) -> str:
    """Return a bar for each of the kernels and copies that take most time."""
    entries = [
        Bar(
            formatting.shortened(row.name, 80),
            [Part(row.times.total * _US, row.kind.value)],
            f"{formatting.time(row.times.total)}, {formatting.share(row.share)}",
        )
        for row in rows[:MAX_BARS]
    ]
    return bars(entries, "s", groups=[kind.value for kind in WorkKind])


def _unit_picture(rows: Sequence[WorkRow]) -> str:
    """Return a bar for each unit: the cycles in which it works, is stalled, or has no work."""
    totals = {unit: dict.fromkeys(STATES, 0.0) for unit in UNITS}
    for row in rows:
        for unit, states in row.unit_cycles.items():
            for state, cycles in states.items():
                totals[unit][state] += cycles
    entries = [
        Bar(unit.upper(), [Part(cycles, state) for state, cycles in states.items()], "cycles")
        for unit, states in totals.items()
        if any(states.values())
    ]
    if not entries:
        return ""
    return f"<h3>Units during kernels, on their busiest core</h3>{bars(entries, groups=STATES)}"


def _work_table(rows: Sequence[WorkRow], name: str) -> str:
    heads = (
        "Name|Kind|Time|Share|Calls|Mean|PT|DDR|SFP|LX|Ring|Bound by|Cores|Bytes|LX peak|Ops|Lines"
    )
    cells: list[list[Cell | str]] = [
        [
            row.name,
            Cell(row.kind.value, "nowrap"),
            _time(row.times.total),
            _share(row.share),
            Cell(str(row.times.count), sort=row.times.count),
            _time(row.times.mean),
            Cell(
                formatting.pt_utilisation(row),
                "bad" if row.num_exceeding else "",
                row.utilisations.get("pt", 0.0),
            ),
            *(_share(row.utilisations.get(unit)) for unit in ("ddr", "sfp", "lx", "ring")),
            Cell(row.bound_by, "nowrap"),
            "" if row.cores is None else str(row.cores),
            Cell(formatting.bytes_text(row.num_bytes), sort=row.num_bytes or 0.0),
            Cell(formatting.bytes_text(row.lx_peak_bytes), sort=row.lx_peak_bytes or 0.0),
            row.op,
            ", ".join(row.lines),
        ]
        for row in rows
    ]
    return table(name, heads.split("|"), cells)


def _owner_table(rows: Sequence[OwnerRow], name: str) -> str:
    heads = ["Name", "Calls", "Device self", "Device total", "Host self", "Host total"]
    cells: list[list[Cell | str]] = [
        [
            row.name,
            Cell(str(row.calls), sort=row.calls),
            _time(row.device_self),
            _time(row.device_total),
            _time(row.host_self),
            _time(row.host_total),
        ]
        for row in rows
    ]
    return table(name, heads, cells)


def _place_table(rows: Sequence[PlaceRow], name: str) -> str:
    heads = ["Name", "Kernels", "Alone", "Device total"]
    cells: list[list[Cell | str]] = [
        [row.name, Cell(str(row.kernels), sort=row.kernels), _time(row.alone), _time(row.total)]
        for row in rows
    ]
    return table(name, heads, cells)


def _share(value: float | None) -> Cell:
    return Cell(formatting.share(value), sort=value or 0.0)


def _time(microseconds: float) -> Cell:
    return Cell(formatting.time(microseconds), sort=microseconds)


def _comparison(comparison: Comparison) -> list[str]:
    first, second = comparison.files
    parts = [f"<h2>{escape(first)} compared with {escape(second)}</h2>"]
    sides = ("first", "second")
    entries = [
        Bar(f"{row.name}, {side}", [Part(time * _US, side)])
        for row in comparison.totals
        for side, time in zip(sides, row.times, strict=True)
    ]
    parts.append(bars(entries, "s", groups=sides))
    for name, rows in (("compared-work", comparison.work), ("compared-ops", comparison.ops)):
        parts.append(_compared_table(rows, name))
    return parts


def _compared_table(rows: Sequence[ComparedRow], name: str) -> str:
    heads = ["Name", "Calls", "then", "Time", "then", "Change", ""]
    cells: list[list[Cell | str]] = [
        [
            row.name,
            *(Cell(str(calls), sort=calls) for calls in row.calls),
            *(_time(time) for time in row.times),
            Cell(formatting.time(row.change), _judgement(row.change), row.change),
            formatting.change(row.ratio) if row.change else "",
        ]
        for row in rows
    ]
    return table(name, heads, cells)


def _judgement(change: float) -> str:
    return "bad" if change > 0 else "good" if change < 0 else ""

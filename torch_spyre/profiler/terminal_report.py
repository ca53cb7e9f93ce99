"""Shows summaries and comparisons of traces on a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torch_spyre.profiler import formatting
from torch_spyre.profiler.breakdown import GapCause
from torch_spyre.profiler.comparison import ComparedRow, Comparison
from torch_spyre.profiler.ownership import OwnerRow
from torch_spyre.profiler.program_places import PlaceRow, short_places
from torch_spyre.profiler.summary import CardSummary, Summary, clock_text
from torch_spyre.profiler.trace import WorkKind

_MAX_NAME, _MIN_NAME, _MAX_PLACE = 48, 16, 20
# Columns of a terminal that has room for more columns of a table, and for all of them.
_WIDE, _WIDEST = 110, 120
_MAX_GAPS = 3


def show(summary: Summary, console: Console, max_rows: int) -> None:
    """Print a summary; every table has at most so many rows."""
    _line(console, f"{summary.trace.path}", "bold")
    for note in summary.notes:
        _line(console, f"note: {note}", "yellow")
    if not summary.cards:
        _line(console, "There is no work of a card in this trace.")
    else:
        _line(console, clock_text(summary.trace), "dim")
    for card in summary.cards:
        show_card(card, console)
    show_work(summary, console, max_rows)
    show_places(console, "Lines of kernels", summary.lines, max_rows)
    show_places(console, "Modules of kernels", summary.kernel_modules, max_rows)
    _show_owners(console, "Ops", summary.ops, max_rows)
    _show_owners(console, "Scopes", summary.scopes, max_rows)
    _show_owners(console, "Modules", summary.modules, max_rows)
    for title, values in (
        ("Launch delay, from the launch to the start of the work", summary.launch_delay),
        ("Waits of the host for the card", summary.host_waits),
    ):
        if values is not None:
            _line(
                console,
                f"\n{title}: mean {formatting.time(values.mean)}, "
                f"median {formatting.time(values.median)}, "
                f"95 % below {formatting.time(values.percentile_95)}, "
                f"longest {formatting.time(values.maximum)}; "
                f"{values.count} in all {formatting.time(values.total)}",
            )


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style), soft_wrap=True)


def show_card(card: CardSummary, console: Console) -> None:
    """Print how the time of a card is divided, and its longest idle times."""
    times = card.breakdown
    _line(
        console,
        f"\nCard {card.card}{f' ({card.name})' if card.name else ''}: {card.num_kernels} kernels "
        f"and {card.num_copies} copies and fills in {formatting.time(times.elapsed)}",
        "bold",
    )
    table = _table("", ">time", ">share", "")
    overlap = times.communication_overlap
    parts = (
        ("compute", times.compute, f"PT utilisation {formatting.share(card.pt_utilisation)}"),
        (
            "communication only",
            times.communication_only,
            "" if overlap is None else f"{formatting.share(overlap)} of it overlaps with compute",
        ),
        (
            "memory only",
            times.memory_only,
            ""
            if times.memory_overlap is None
            else f"{formatting.share(times.memory_overlap)} of copies overlap with compute",
        ),
        ("idle", times.idle, _causes(card)),
    )
    for name, value, remark in parts:
        part = value / times.elapsed if times.elapsed else None
        table.add_row(name, formatting.time(value), formatting.share(part), remark)
    console.print(table)
    if card.peak_bytes is not None:
        _line(console, f"peak of device memory: {formatting.bytes_text(card.peak_bytes)}")
    for gap in sorted(times.gaps, key=lambda gap: -gap.duration)[:_MAX_GAPS]:
        _line(
            console,
            f"idle for {formatting.time(gap.duration)} at {formatting.time(gap.begin)} "
            f"({gap.cause}), from {formatting.shortened(gap.before, _MAX_NAME)} "
            f"to {formatting.shortened(gap.after, _MAX_NAME)}",
            "dim",
        )


def _causes(card: CardSummary) -> str:
    meanings = {
        GapCause.HOST: "waiting for the host",
        GapCause.DEVICE: "with work pending",
        GapCause.UNKNOWN: "of unknown cause",
    }
    causes = card.breakdown.idle_by_cause()
    return ", ".join(
        f"{formatting.time(causes[cause])} {meaning}"
        for cause, meaning in meanings.items()
        if causes[cause]
    )


def show_work(summary: Summary, console: Console, max_rows: int) -> None:
    """Print the kernels, copies and fills of all cards."""
    kernels = [r for r in summary.work if r.kind in (WorkKind.KERNEL, WorkKind.COMMUNICATION)]
    if kernels:
        is_wide = console.width >= _WIDE
        place = _MAX_PLACE if console.width >= _WIDEST else 0
        wide_heads: tuple[str, ...] = (">mean", ">DDR", ">bytes") if is_wide else ()
        wide_heads += ("from",) if place else ()
        table = _table("Kernels", ">time", ">share", ">calls", ">PT", "bound by", *wide_heads)
        for row in kernels[:max_rows]:
            wide_cells = (
                formatting.time(row.times.mean),
                formatting.share(row.utilisations.get("ddr")),
                formatting.bytes_text(row.num_bytes),
            )
            from_cells = (formatting.shortened(short_places(row.lines), place),) if place else ()
            table.add_row(
                _name(row.name, console, (72 + place) if is_wide else 46),
                formatting.time(row.times.total),
                formatting.share(row.share),
                str(row.times.count),
                formatting.pt_utilisation(row),
                row.bound_by or "-",
                *(wide_cells if is_wide else ()),
                *from_cells,
            )
        _show_table(console, table, len(kernels), max_rows)
    copies = [row for row in summary.work if row not in kernels]
    if copies:
        table = _table("Copies and fills", ">time", ">share", ">calls", ">bytes", ">bandwidth")
        for row in copies[:max_rows]:
            table.add_row(
                _name(row.name, console, 50),
                formatting.time(row.times.total),
                formatting.share(row.share),
                str(row.times.count),
                formatting.bytes_text(row.num_bytes),
                formatting.bandwidth(row.bandwidth),
            )
        _show_table(console, table, len(copies), max_rows)


def show_places(console: Console, title: str, rows: Sequence[PlaceRow], max_rows: int) -> None:
    """Print the device time of the lines or modules that kernels come from."""
    if not rows:
        return
    table = _table(title, ">kernels", ">alone", ">device total")
    for row in rows[:max_rows]:
        table.add_row(
            _name(row.name, console, 36),
            str(row.kernels),
            formatting.time(row.alone),
            formatting.time(row.total),
        )
    _show_table(console, table, len(rows), max_rows)


def _show_owners(console: Console, title: str, rows: Sequence[OwnerRow], max_rows: int) -> None:
    if not rows:
        return
    table = _table(title, ">calls", ">device self", ">device total", ">host self", ">host total")
    for row in rows[:max_rows]:
        table.add_row(
            _name(row.name, console, 64),
            str(row.calls),
            formatting.time(row.device_self),
            formatting.time(row.device_total),
            formatting.time(row.host_self),
            formatting.time(row.host_total),
        )
    _show_table(console, table, len(rows), max_rows)


def show_comparison(comparison: Comparison, console: Console, max_rows: int) -> None:
    """Print what changes from the first trace to the second."""
    _line(console, f"\n{comparison.files[0]} compared with {comparison.files[1]}", "bold")
    for title, rows in (
        ("Totals", comparison.totals),
        ("Kernels, copies and fills", comparison.work),
        ("Ops", comparison.ops),
    ):
        if rows:
            show_compared(console, title, rows, max_rows)


def show_compared(console: Console, title: str, rows: Sequence[ComparedRow], max_rows: int) -> None:
    """Print the rows of one table of a comparison."""
    table = _table(title, ">calls", ">then", ">time", ">then", ">change", "")
    for row in rows[:max_rows]:
        table.add_row(_name(row.name, console, 58), *_compared_cells(row))
    _show_table(console, table, len(rows), max_rows)


def _compared_cells(row: ComparedRow) -> Iterable[str]:
    sign = "+" if row.change > 0 else ""
    return (
        *map(str, row.calls),
        *map(formatting.time, row.times),
        sign + formatting.time(row.change),
        formatting.change(row.ratio) if row.change else "",
    )


def _name(name: str, console: Console, other_columns: int) -> str:
    """Return a name that leaves so many columns for the rest of its row."""
    return formatting.shortened(name, max(_MIN_NAME, min(_MAX_NAME, console.width - other_columns)))


def _table(*heads: str) -> Table:
    """Return a table; the columns of heads that begin with > are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        justify = "right" if head.startswith(">") else "left"
        table.add_column(head.removeprefix(">"), justify=justify, no_wrap=True)  # type: ignore[arg-type]  # a literal
    return table


def _show_table(console: Console, table: Table, num_rows: int, max_rows: int) -> None:
    console.print()
    console.print(table)
    if num_rows > max_rows:
        _line(console, f"and {num_rows - max_rows} more (--top)", "dim")

"""The tables of upstream's trace analyzer as files: categories, kernels, and activity of cards."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch_spyre.profiler.durations import Statistics, statistics_of
from torch_spyre.profiler.kernels import CategoryRow
from torch_spyre.profiler.summary import Summary
from torch_spyre.profiler.trace import WorkKind
from torch_spyre.text_reports import write_text

_CATEGORY_HEADS = (
    "Pid", "Phase", "Category", "Kernel_Time", "Frac_Time", "Calls", "Ideal_Time", "Ideal_Cyc",
    "Frac_Ideal", "PT_Util",
)  # fmt: skip
_SUMMARY_HEADS = (
    "Time(%)", "Total Time (us)", "Calls", "Average", "Median", "Minimum", "Maximum", "StdDev",
    "Pid", "Name",
)  # fmt: skip
_ACTIVE_HEADS = ("Pid", "Kernel Time (us)", "Elapsed (us)", "Start", "End", "Active (%)")
# Traces do not say in which phase of a language model a kernel runs.
_NO_PHASE = "-"
_DIGITS = re.compile(r"\d+")


def write_tables(summary: Summary, prefix: Path, keeps_names: bool = False) -> list[Path]:
    """Write the tables `<prefix>_categories`, `_summary` and `_active`; return their paths.

    Numbers in the names of kernels become `_[N]` in the summary, unless names are kept.
    """
    categories = [_category_cells(row) for row in summary.categories]
    texts = {
        "_categories.csv": _separated(_CATEGORY_HEADS, categories, ","),
        "_categories.txt": _aligned(_CATEGORY_HEADS, categories),
        "_summary.csv": _separated(_SUMMARY_HEADS, _summary_cells(summary, keeps_names), "\t"),
        "_active.csv": _separated(_ACTIVE_HEADS, _active_cells(summary), ","),
    }
    paths = []
    for suffix, text in texts.items():
        path = prefix.with_name(prefix.name + suffix)
        write_text(path, text)
        paths.append(path)
    return paths


def _category_cells(row: CategoryRow) -> list[str]:
    return [
        str(row.card),
        _NO_PHASE,
        row.category,
        f"{row.kernel_time:.3f}",
        f"{row.share:.4f}",
        str(row.calls),
        f"{row.ideal_time:.3f}",
        f"{row.ideal_cycles:.0f}",
        f"{row.ideal_share:.4f}",
        f"{row.utilisation:.4f}",
    ]


def _summary_cells(summary: Summary, keeps_names: bool) -> Iterable[list[str]]:
    groups: dict[tuple[int, str], list[float]] = defaultdict(list)
    totals: dict[int, float] = defaultdict(float)
    for work in summary.trace.work:
        if work.kind is WorkKind.KERNEL:
            name = work.name if keeps_names else name_without_numbers(work.name)
            groups[work.card, name].append(work.duration)
            totals[work.card] += work.duration
    rows = []
    for (card, name), durations in groups.items():
        times = statistics_of(durations)
        assert times is not None, "a group has at least one kernel"
        share = times.total / totals[card] if totals[card] else 0.0
        rows.append((card, -times.total, name, _summary_row(card, name, share, times)))
    return [cells for *_, cells in sorted(rows)]


def _summary_row(card: int, name: str, share: float, times: Statistics) -> list[str]:
    values = (times.mean, times.median, times.minimum, times.maximum, times.deviation)
    return [
        f"{100 * share:.2f}",
        f"{times.total:.3f}",
        str(times.count),
        *(f"{value:.3f}" for value in values),
        str(card),
        name,
    ]


def name_without_numbers(name: str) -> str:
    """Return a name with its numbers replaced, so that numbered kernels are one row."""
    return re.sub(r"_?\[N\](_\[N\])*", "_[N]", _DIGITS.sub("[N]", name))


def _active_cells(summary: Summary) -> Iterable[list[str]]:
    for card in summary.cards:
        times = card.breakdown
        share = times.compute / times.elapsed if times.elapsed else 0.0
        values = (times.compute, times.elapsed, times.begin, times.end)
        yield [str(card.card), *(f"{value:.3f}" for value in values), f"{100 * share:.2f}"]


def _separated(heads: Sequence[str], rows: Iterable[Sequence[str]], separator: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n"
        for line in lines
    )

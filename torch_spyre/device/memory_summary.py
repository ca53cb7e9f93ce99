"""The table of `torch.spyre.memory_summary`, in the form of `torch.cuda.memory_summary`."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch_spyre.text_reports import readable_bytes

_WIDTH = 75
_STATISTICS = ("current", "peak", "allocated", "freed")
_BYTES = (
    ("Allocated memory", "allocated_bytes"),
    ("Active memory", "active_bytes"),
    ("Requested memory", "requested_bytes"),
    ("Reserved memory", "reserved_bytes"),
)
_COUNTS = (("Allocations", "allocation"), ("Active allocations", "active"))


def summary_table(index: int, stats: Mapping[str, Any], abbreviated: bool) -> str:
    """Return the table of a card; `stats` are those of `torch.spyre.memory_stats`."""
    rule, double_rule = "-" * _WIDTH, "=" * _WIDTH
    lines = [
        double_rule,
        f"PyTorch memory summary of spyre:{index}".center(_WIDTH),
        rule,
        f"OOMs: {stats.get('num_ooms', 0)}   |   "
        f"allocations retried: {stats.get('num_alloc_retries', 0)}".center(_WIDTH),
        double_rule,
        _row("Metric", ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")),
        rule,
    ]
    lines += [_row(label, map(readable_bytes, _values(stats, key))) for label, key in _BYTES]
    if not abbreviated:
        lines.append(rule)
        lines += [
            _row(label, (f"{value:,}" for value in _values(stats, key))) for label, key in _COUNTS
        ]
    free, total = stats.get("free_bytes", 0), stats.get("total_bytes", 0)
    lines += [
        rule,
        f" Free: {readable_bytes(free)} of {readable_bytes(total)}, largest block "
        f"{readable_bytes(stats.get('largest_free_block', free))}, "
        f"fragmentation {stats.get('fragmentation', 0.0):.1%}",
        double_rule,
    ]
    return "".join(f"|{line:<{_WIDTH}}|\n" for line in lines)


def _values(stats: Mapping[str, Any], key: str) -> list[int]:
    return [stats.get(f"{key}.all.{statistic}", 0) for statistic in _STATISTICS]


def _row(label: str, cells: Iterable[str]) -> str:
    return f" {label:<20} " + "".join(f"| {cell:>10} " for cell in cells)

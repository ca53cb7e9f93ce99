"""Memory of the cards: statistics, limits and memory maps."""

from typing import Any

import torch
from torch.accelerator.memory import empty_host_cache

from torch_spyre import _C
from torch_spyre._C import (
    host_memory_stats,
    reset_accumulated_host_memory_stats,
    reset_peak_host_memory_stats,
)
from torch_spyre.device.index import DeviceLike, device_index

__all__ = [
    "empty_cache",
    "empty_host_cache",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def empty_cache() -> None:
    """Return cached free memory of the emulated cards to the host."""
    torch.accelerator.memory.empty_cache()


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return PyTorch's statistics and those of free memory.

    The latter are `free_bytes`, `total_bytes`, `limit_bytes`, `largest_free_block`, `free_blocks`
    and `fragmentation`: the fraction of free memory outside of the largest free block.
    """
    index = device_index(device)
    stats: dict[str, Any] = dict(torch.accelerator.memory.memory_stats(index))
    if _C.is_started():
        stats.update(_C.memory_report(index))
    return stats


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes of live tensors, each rounded up to whole sticks."""
    return torch.accelerator.memory.memory_allocated(device_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    return torch.accelerator.memory.max_memory_allocated(device_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes committed on the host: live tensors and cached free memory."""
    return torch.accelerator.memory.memory_reserved(device_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    return torch.accelerator.memory.max_memory_reserved(device_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.memory.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.memory.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return free and total bytes of a card."""
    report = _C.memory_report(device_index(device))
    return report["free_bytes"], report["total_bytes"]


get_memory_info = mem_get_info


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit this process to a fraction of a card's memory."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
    index = device_index(device)
    _C.set_memory_limit(index, int(fraction * _C.memory_report(index)["total_bytes"]))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    report = _C.memory_report(device_index(device))
    return float(report["limit_bytes"] / report["total_bytes"])


def memory_snapshot(device: DeviceLike = None) -> list[dict[str, Any]]:
    """Return one segment for a card, or for each card, with its blocks by address."""
    indices = range(_C.device_count()) if device is None else [device_index(device)]
    return [_segment(index) for index in indices]


def _segment(index: int) -> dict[str, Any]:
    blocks = _C.memory_blocks(index)
    allocated = [block for block in blocks if block["state"] == "active_allocated"]
    active = [block for block in blocks if block["state"] != "free"]
    return {
        "device": index,
        "address": 0,
        "total_size": sum(block["size"] for block in blocks),
        "allocated_size": sum(block["size"] for block in allocated),
        "active_size": sum(block["size"] for block in active),
        "requested_size": sum(block["requested_size"] for block in allocated),
        "segment_type": "card",
        "blocks": blocks,
    }


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the statistics as a table to print."""
    index = device_index(device)
    stats = memory_stats(index)
    rows = [
        ("allocated", "allocated_bytes"),
        ("requested", "requested_bytes"),
        ("active", "active_bytes"),
        ("reserved", "reserved_bytes"),
    ]
    lines = [
        f"Memory of spyre:{index}",
        f"{'':<12}{'now':>14}{'peak':>14}{'ever added':>14}{'ever freed':>14}",
    ]
    for label, key in rows:
        values = [stats.get(f"{key}.all.{statistic}", 0) for statistic in _STATISTICS]
        lines.append(f"{label:<12}" + "".join(f"{_readable(value):>14}" for value in values))
    if not abbreviated:
        counts = [stats.get(f"allocation.all.{statistic}", 0) for statistic in _STATISTICS]
        lines.append(f"{'allocations':<12}" + "".join(f"{value:>14,}" for value in counts))
    free, total = mem_get_info(index)
    lines.append(
        f"free {_readable(free)} of {_readable(total)}, largest block "
        f"{_readable(stats.get('largest_free_block', free))}, "
        f"fragmentation {stats.get('fragmentation', 0.0):.1%}"
    )
    return "\n".join(lines)


_STATISTICS = ("current", "peak", "allocated", "freed")


def _readable(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"

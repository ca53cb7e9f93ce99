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
from torch_spyre.device.memory_history import (
    _allocation_traceback as _allocation_traceback,
)
from torch_spyre.device.memory_history import _dump_snapshot as _dump_snapshot
from torch_spyre.device.memory_history import _record_memory_history as _record_memory_history
from torch_spyre.device.memory_history import _snapshot as _snapshot
from torch_spyre.device.memory_history import memory_snapshot as memory_snapshot
from torch_spyre.device.memory_summary import summary_table

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


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the statistics as a table to print."""
    index = device_index(device)
    # Starts the card, so that free and total bytes are known.
    stats = {**_C.memory_report(index), **memory_stats(index)}
    return summary_table(index, stats, abbreviated)

"""Use of the host's processors and memory, from /proc."""

from dataclasses import dataclass
from os import cpu_count
from pathlib import Path

# Of the fields of the line `cpu` in /proc/stat: user, nice, system, idle, iowait, irq, softirq,
# steal. Guest time is part of user time.
_NUM_FIELDS = 8
_IDLE_FIELDS = (3, 4)


@dataclass(frozen=True)
class HostTimes:
    """Time since the host was started, in clock ticks summed over its processors."""

    used: int
    total: int


@dataclass(frozen=True)
class HostUsage:
    """Processors in percent of one (800: eight are busy), and memory in percent."""

    processors: float
    memory: float


def read_host_times() -> HostTimes:
    first_line = Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = [int(field) for field in first_line.split()[1 : 1 + _NUM_FIELDS]]
    total = sum(ticks)
    return HostTimes(total - sum(ticks[field] for field in _IDLE_FIELDS), total)


def host_usage(before: HostTimes, after: HostTimes) -> HostUsage:
    """Return the use of processors between two times, and the use of memory now."""
    total = after.total - before.total
    share = (after.used - before.used) / total if total > 0 else 0.0
    return HostUsage(100 * max(0.0, share) * (cpu_count() or 1), _memory_percent())


def _memory_percent() -> float:
    sizes = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        sizes[name] = int(size.split()[0])
    return 100 * (1 - sizes["MemAvailable"] / sizes["MemTotal"])

"""The metrics that reports of kernels may have, by name: columns of instructions, and tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_spyre.errors import InputError
from torch_spyre.kernel_counters.counters import InstructionCounters, KernelCounters

_PS_PER_US = 10**6


@dataclass(frozen=True)
class Column:
    """A column of the table of instructions: its head, the text of a cell and its number."""

    metric: str
    head: str
    text: Callable[[float], str]
    value: Callable[[KernelCounters, InstructionCounters], float]


def _us(picoseconds: float) -> str:
    return f"{picoseconds / _PS_PER_US:.3f}"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _count(number: float) -> str:
    return f"{int(number):,}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


COLUMNS = (
    Column("executions", "Cores", _count, lambda kernel, entry: entry.cores),
    Column("executions", "Executions", _count, lambda kernel, entry: sum(entry.executions)),
    Column("exec", "Exec us", _us, lambda kernel, entry: entry.time_ps),
    Column(
        "exec",
        "Share",
        _percent,
        lambda kernel, entry: _share(entry.time_ps, kernel.timing.time_ps),
    ),
    Column("dma", "DMA us", _us, lambda kernel, entry: entry.busy_ps.get("ddr", 0)),
    Column(
        "pe",
        "PE %",
        _percent,
        lambda kernel, entry: _share(entry.busy_ps.get("pt", 0), kernel.timing.time_ps),
    ),
    Column("ddr", "DDR bytes", _count, lambda kernel, entry: entry.device_bytes),
    Column("lx", "LX bytes", _count, lambda kernel, entry: entry.scratchpad_bytes),
)
# Metrics with a table of their own: the cycles of every unit, and of every core's units.
TABLES = ("units", "cores")
METRICS = tuple(dict.fromkeys((*(column.metric for column in COLUMNS), *TABLES)))
DEFAULT_METRICS = ("executions", "exec", "dma", "pe", "units")


def check_metrics(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics; raise InputError for one that does not exist."""
    for metric in metrics:
        if metric not in METRICS:
            raise InputError(
                f"metric {metric!r}", f"there is no such metric; there are: {', '.join(METRICS)}"
            )
    return tuple(metrics)


def columns_of(metrics: Sequence[str]) -> list[Column]:
    return [column for column in COLUMNS if column.metric in metrics]

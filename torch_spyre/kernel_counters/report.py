"""Reports of kernels: each with its launches, as text, as data and as a page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch_spyre.kernel_counters.counters import CoreCounters, KernelCounters
from torch_spyre.kernel_counters.metrics import DEFAULT_METRICS, Column, columns_of
from torch_spyre.kernel_counters.unit_cycles import UNITS, UnitCycles
from torch_spyre.text_reports import aligned, ranges

UNIT_HEADS = ("Busy", "Waiting for input", "Waiting for output", "Idle", "Busy share")


@dataclass(frozen=True)
class KernelReport:
    """The counters of one launch of a kernel, and how often it was launched; None if unknown."""

    counters: KernelCounters
    launches: int | None = None

    @property
    def total_ps(self) -> int:
        """Return the device time of all launches, or of one if their number is unknown."""
        return self.counters.timing.time_ps * (1 if self.launches is None else self.launches)

    @property
    def headline(self) -> str:
        timing = self.counters.timing
        launches = "" if self.launches is None else f"{self.launches:,} x "
        return (
            f"{launches}{timing.time_us:.3f} us, {timing.cycles:,} cycles, bound by "
            f"{timing.bound_by}, {timing.ddr_read_bytes:,} bytes read, "
            f"{timing.ddr_write_bytes:,} written"
        )


def text_report(kernels: Sequence[KernelReport], metrics: Sequence[str] = DEFAULT_METRICS) -> str:
    """Return the tables of kernels, those with most device time first."""
    if not kernels:
        return "no kernel was launched\n"
    ordered = sorted(kernels, key=lambda kernel: -kernel.total_ps)
    return "\n".join("\n".join(_kernel_lines(kernel, metrics)) + "\n" for kernel in ordered)


def as_dicts(kernels: Sequence[KernelReport]) -> list[dict[str, Any]]:
    """Return everything that is known of the kernels, as plain data."""
    return [_as_dict(kernel) for kernel in kernels]


def core_groups(kernel: KernelCounters) -> list[tuple[str, CoreCounters]]:
    """Return the cores with equal counters: their names, and the counters of the first."""
    groups: dict[object, list[CoreCounters]] = {}
    for core in kernel.cores:
        groups.setdefault((core.executions, tuple(core.units.values())), []).append(core)
    return [(ranges([core.core for core in cores]), cores[0]) for cores in groups.values()]


def _kernel_lines(kernel: KernelReport, metrics: Sequence[str]) -> Iterator[str]:
    counters = kernel.counters
    yield counters.name
    yield f"  ops   {' '.join(dict.fromkeys(counters.ops))}"
    yield f"  time  {kernel.headline}"
    if "units" in metrics:
        unit_rows = [(unit, *unit_cells(counters.units[unit])) for unit in UNITS]
        yield from _table("cycles of the units", ("Unit", *UNIT_HEADS), unit_rows)
    if "cores" in metrics:
        core_heads = ("Cores", "Executions", "Unit", *UNIT_HEADS)
        yield from _table("cycles of the units of each core", core_heads, _core_rows(counters))
    columns = columns_of(metrics)
    if columns:
        has_origins = any(entry.origin for entry in counters.instructions)
        heads = ("#", "Instruction", "KTIR op", *(column.head for column in columns))
        rows = _instruction_rows(counters, columns, has_origins=has_origins)
        yield from _table("instructions", (*heads, "From") if has_origins else heads, rows)


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"  {title}"
    yield from (f"    {line}" for line in aligned([heads, *rows]))


def _core_rows(counters: KernelCounters) -> Iterator[Sequence[str]]:
    for name, core in core_groups(counters):
        for unit, cycles in core.units.items():
            yield (name, f"{core.executions:,}", unit, *unit_cells(cycles))


def _instruction_rows(
    counters: KernelCounters, columns: Sequence[Column], *, has_origins: bool
) -> Iterator[Sequence[str]]:
    for entry in counters.instructions:
        cells = [column.text(column.value(counters, entry)) for column in columns]
        row = (str(entry.index), entry.label, entry.source, *cells)
        yield (*row, entry.origin) if has_origins else row


def unit_cells(cycles: UnitCycles) -> tuple[str, ...]:
    """Return the cells of a unit: its cycles by kind, and the busy share."""
    parts = (cycles.busy, cycles.stalled_on_input, cycles.stalled_on_output, cycles.idle)
    share = cycles.busy / cycles.total if cycles.total else 0.0
    return (*(f"{part:,}" for part in parts), f"{share:.1%}")


def _as_dict(kernel: KernelReport) -> dict[str, Any]:
    counters = kernel.counters
    return {
        "name": counters.name,
        "ops": list(counters.ops),
        "launches": kernel.launches,
        "timing": {
            key: value for key, value in counters.timing.to_dict().items() if key != "steps"
        },
        "units": {unit: asdict(cycles) for unit, cycles in counters.units.items()},
        "cores": [asdict(core) for core in counters.cores],
        "instructions": [
            {**asdict(entry), "bound_by": entry.bound_by} for entry in counters.instructions
        ],
    }

"""How much of the matrix unit (PT) a kernel uses: its ideal time as a share of its time.

A kernel of a Spyre trace states its utilisation. For other kernels, files of ideal cycles can be
given, as the compiler of the card writes them: `perf/ideal_cycles.json` in the folder of a kernel,
a list of objects with `ideal_cycles` and `op_category`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch_spyre.errors import TraceFileError
from torch_spyre.profiler.trace import Work
from torch_spyre.profiler.trace_file import integer, number

DEFAULT_CORE_MHZ = 1100.0
OTHER_CATEGORY = "other"
# A share above 1 by rounding is none.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class IdealCycles:
    """The cycles that a kernel would take if the matrix unit never waited, and its category."""

    cycles: int
    category: str


@dataclass(frozen=True)
class UtilisationSource:
    """Ideal cycles by name of the kernel, and the frequency of the cores if the user gave one."""

    kernels: Mapping[str, IdealCycles] = field(default_factory=dict)
    core_mhz: float | None = None

    def ideal_us(self, work: Work) -> float | None:
        """Return the ideal time of a kernel in microseconds, or None if it is not known."""
        known = self._known(work.name)
        cycles = known.cycles if known else number(work.arguments.get("ideal_cycles"))
        if known is None and self.core_mhz is None:
            share = number(work.arguments.get("pt_util"))
            if share is not None:
                return share * work.duration
        return None if cycles is None else cycles / self._mhz(work)

    def ideal_cycles(self, work: Work) -> float:
        """Return the ideal cycles of a kernel, or 0 if they are unknown or exceed its time."""
        ideal = self.ideal_us(work)
        if ideal is None or exceeds_peak(ideal, work.duration):
            return 0.0
        return ideal * self._mhz(work)

    def category(self, work: Work) -> str:
        known = self._known(work.name)
        recorded = work.arguments.get("op_category")
        return known.category if known else str(recorded) if recorded else OTHER_CATEGORY

    def _known(self, name: str) -> IdealCycles | None:
        return self.kernels.get(name) or self.kernels.get(name.removesuffix(" Cmpt Exec"))

    def _mhz(self, work: Work) -> float:
        if self.core_mhz is not None:
            return self.core_mhz
        cycles = number(work.arguments.get("cycles"))
        return cycles / work.duration if cycles and work.duration else DEFAULT_CORE_MHZ


def exceeds_peak(ideal_us: float, duration_us: float) -> bool:
    """Return whether the ideal time is longer than the time, which no kernel can achieve."""
    return ideal_us > duration_us * (1 + _TOLERANCE)


def read_ideal_cycles(folder: Path) -> dict[str, IdealCycles]:
    """Return the ideal cycles of every kernel with a folder below this one.

    The name of a kernel is that of its folder, with or without the random suffix that the compiler
    appends. Raises `TraceFileError` for a file that is not as expected, or if there is none.
    """
    kernels: dict[str, IdealCycles] = {}
    for path in sorted(folder.glob("**/perf/ideal_cycles.json")):
        entry = _read_entries(path)
        name = path.parent.parent.name
        kernels[name] = entry
        kernels.setdefault(name.rpartition("_")[0] or name, entry)
    if not kernels:
        raise TraceFileError(folder, "it has no files <kernel>/perf/ideal_cycles.json")
    return kernels


def _read_entries(path: Path) -> IdealCycles:
    try:
        entries = json.loads(path.read_text())
        cycles = [integer(entry["ideal_cycles"]) for entry in entries]
        categories = [str(entry.get("op_category", OTHER_CATEGORY)) for entry in entries]
    except OSError as error:
        raise TraceFileError(path, error.strerror or str(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TraceFileError(path, "it is not a list of ideal cycles and categories") from error
    valid = [value for value in cycles if value is not None and value >= 0]
    if len(valid) != len(cycles) or not valid:
        raise TraceFileError(path, "it is not a list of ideal cycles and categories")
    # The category of a fused kernel is that of its largest part.
    return IdealCycles(sum(valid), categories[valid.index(max(valid))])

"""The result of the timing model. Times are whole picoseconds, counters are integers."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from math import floor
from typing import Any, Literal

Unit = Literal["pt", "sfp", "ddr", "lx", "ring"]


@dataclass(frozen=True)
class UnitTimes:
    """Time of every unit if it did not wait for another, in ps."""

    pt: int
    sfp: int
    ddr: int
    lx: int
    ring: int


@dataclass(frozen=True)
class Utilisation:
    """Utilisation of the chip over the time of a program: work done / work possible, 0 to 1.

    `ddr` and its two directions are shares of the peak bandwidth, `ddr_sustained` of the sustained
    bandwidth.
    """

    pt: float
    sfp: float
    ddr: float
    ddr_read: float
    ddr_write: float
    ddr_sustained: float
    lx: float
    ring: float
    core_active: float


@dataclass(frozen=True)
class CoreUtilisation:
    """Utilisation of the busiest core over the time of a program, 0 to 1."""

    pt: float
    sfp: float
    lx: float


@dataclass(frozen=True)
class StepSpan:
    """The interval of a step on the timeline of its program; intervals have no gaps."""

    name: str
    op: str
    cores: int
    start_ps: int
    duration_ps: int
    busy: UnitTimes


@dataclass(frozen=True)
class Timing:
    """Device time of one launch of a program, and its causes.

    `time_ps` lets the units overlap fully, as upstream's model does; `serial_ps` is the time if
    they worked one after the other. The time on hardware is between the two.

    The counters add up over launches. `relayout_ps`, `ring_exposed_ps`, `restick_extra_ps` and
    `split_shape_ps` are the parts of the time that do not overlap with other work.
    """

    time_ps: int
    serial_ps: int
    cycles: int
    bound_by: Unit
    busy: UnitTimes
    utilisation: Utilisation
    busiest_core: CoreUtilisation
    macs: int
    sfp_lane_ops: int
    ddr_read_bytes: int
    ddr_write_bytes: int
    ddr_requests: int
    lx_bytes: int
    lx_peak_bytes: int
    ring_byte_hops: int
    relayout_ps: int
    ring_exposed_ps: int
    restick_extra_ps: int
    split_shape_ps: int
    steps: tuple[StepSpan, ...]

    @property
    def time_us(self) -> float:
        return float(Fraction(self.time_ps, 10**6))

    def with_overlap(self, factor: float) -> int:
        """Return the time in ps if the units overlap by a factor from 0 (none) to 1 (fully)."""
        if not 0 <= factor <= 1:
            raise ValueError(f"an overlap factor is between 0 and 1, not {factor}")
        saved = Fraction(factor) * (self.serial_ps - self.time_ps)
        return self.serial_ps - floor(saved)

    def to_dict(self) -> dict[str, Any]:
        return {"time_us": self.time_us, **asdict(self)}

"""What the clock says about a program. Times are whole picoseconds, counters whole numbers."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

Unit = Literal["pt", "sfp", "ddr", "lx", "ring"]


@dataclass(frozen=True)
class UnitTimes:
    """How long each unit would take if it had the program to itself, in ps."""

    pt: int
    sfp: int
    ddr: int
    lx: int
    ring: int


@dataclass(frozen=True)
class Utilisation:
    """Of the chip over the time of the program, each from 0 to 1: work done by work possible.

    `ddr` and its two directions are shares of the peak bandwidth, `ddr_sustained` is the share of
    what the memory sustains.
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
    """Of the busiest core over the time of the program."""

    pt: float
    sfp: float
    lx: float


@dataclass(frozen=True)
class StepSpan:
    """Where a step lies on the timeline of the program; spans follow each other without gaps."""

    name: str
    op: str
    cores: int
    start_ps: int
    duration_ps: int
    busy: UnitTimes


@dataclass(frozen=True)
class Timing:
    """Device time of one launch of a program, and what fills it.

    The counters add up over launches. `relayout_ps`, `ring_exposed_ps`, `restick_extra_ps` and
    `split_shape_ps` are the parts of the time that nothing hides.
    """

    time_ps: int
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

    def to_dict(self) -> dict[str, Any]:
        return {"time_us": self.time_us, **asdict(self)}

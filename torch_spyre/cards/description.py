"""The card description as frozen, validated records.

Values are plain numbers (`card.memory.usable_bytes`); their units and sources are in
`card.sources`. `loading.py` reads the files.
"""

import hashlib
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from torch_spyre.constants import BYTES_IN_STICK


def _as_fraction(value: object) -> object:
    """Return the exact value of a number in the file: `5.74` is 574/100, not a binary float."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is not a number") from None


Count = Annotated[int, Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]
Exact = Annotated[Fraction, BeforeValidator(_as_fraction)]
Rate = Annotated[Exact, Field(gt=0)]
Cost = Annotated[Exact, Field(ge=0)]
Share = Annotated[Exact, Field(gt=0, le=1)]


class Description(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @cached_property
    def _cached_hash(self) -> int:
        return hash(tuple(self.__dict__[name] for name in type(self).model_fields))

    def __copy__(self) -> Self:
        """Return a copy without cached values, which `model_copy(update=...)` may make untrue."""
        copy = super().__copy__()
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy

    def __hash__(self) -> int:
        """Return the hash, computed once: a card is the key of caches, and has a hundred fields."""
        return self._cached_hash


class Identity(Description):
    name: Text
    type: Text


class Compute(Description):
    cores: Count
    corelets: Count
    lx_bytes: Count
    lx_program_bytes: Annotated[int, Field(ge=0)]
    lx_backend_share: Annotated[Exact, Field(ge=0, lt=1)]
    array_rows: Count
    stick_bytes: Count

    @model_validator(mode="after")
    def check(self) -> "Compute":
        _require(self.stick_bytes == BYTES_IN_STICK, f"stick_bytes must be {BYTES_IN_STICK}")
        _require(self.lx_bytes % self.stick_bytes == 0, "lx_bytes must be whole sticks")
        _require(self.lx_program_bytes < self.lx_bytes, "lx_program_bytes leaves no LX")
        return self

    @property
    def lx_usable_bytes(self) -> int:
        """Return the bytes of LX that a plan may use: the back end and programs need the others."""
        planned = int((self.lx_bytes - self.lx_program_bytes) * (1 - self.lx_backend_share))
        return -(-planned // self.stick_bytes) * self.stick_bytes


class Memory(Description):
    physical_bytes: Count
    ecc_bytes: Annotated[int, Field(ge=0)]
    usable_bytes: Count
    alignment_bytes: Count
    segment_bytes: Count
    segment_count: Count
    program_segment: Annotated[int, Field(ge=0)]
    span_limit_bytes: Count

    @model_validator(mode="after")
    def check(self) -> "Memory":
        _require(
            self.usable_bytes <= self.physical_bytes - self.ecc_bytes,
            "usable_bytes is more than physical_bytes less ecc_bytes",
        )
        _require(
            self.alignment_bytes % BYTES_IN_STICK == 0,
            f"alignment_bytes must be a multiple of {BYTES_IN_STICK}",
        )
        _require(
            self.segment_bytes % self.alignment_bytes == 0,
            "segment_bytes must be a multiple of alignment_bytes",
        )
        _require(
            self.program_segment < self.segment_count, "program_segment must be below segment_count"
        )
        return self


class Ring(Description):
    directions: Count
    bytes_per_cycle: Count


class HostLink(Description):
    pcie_generation: Count
    lanes: Count
    gigabytes_per_second: Rate
    latency_us: Cost


class Power(Description):
    """The power that the card draws: when idle, and in addition by each unit at its peak rate."""

    board_watts: Rate
    idle_watts: Cost
    pt_watts: Cost
    sfp_watts: Cost
    ddr_watts: Cost
    lx_watts: Cost
    ring_watts: Cost
    ambient_celsius: Exact
    celsius_per_watt: Cost

    @model_validator(mode="after")
    def check(self) -> "Power":
        units = (self.pt_watts, self.sfp_watts, self.ddr_watts, self.lx_watts, self.ring_watts)
        total = sum(units, self.idle_watts)
        _require(
            total <= self.board_watts,
            f"idle_watts and the power of all units are {float(total)} W, more than board_watts",
        )
        return self


class FittedRate(Description):
    """A memory rate in GB/s that upstream fitted as a function of an op's shape.

    With r = log2(rows), c = log2(columns) and s = log2(columns / 64), it is `base` plus every
    coefficient times the term that it is named after, clamped to `floor` and `ceiling`.
    """

    base: Exact
    rows: Exact = Fraction(0)
    rows_squared: Exact = Fraction(0)
    columns: Exact = Fraction(0)
    sticks: Exact = Fraction(0)
    sticks_above_rows: Exact = Fraction(0)  # times max(0, s - r)
    rows_above_sticks: Exact = Fraction(0)  # times max(0, r - s)
    floor: Rate
    ceiling: Rate


class FewOuterRows(Description):
    """The loss of rate of an outer transpose whose outermost dimension has few rows."""

    below: Count
    loss_per_halving: Cost
    floor: Rate


class DecayingRate(Description):
    """A memory rate of `base + gain * exp(-rows / decay_rows)` GB/s."""

    base: Rate
    gain: Cost
    decay_rows: Count


class TileFill(Description):
    """The share of the memory rate that a loop over tiles of a core reaches.

    It is (rows / `rows`)^`rows_exponent` * (columns / `columns`)^`columns_exponent`. Below `floor`
    it falls with `floor_exponent` only.
    """

    rows: Rate
    rows_exponent: Cost
    columns: Count
    columns_exponent: Cost
    floor: Share
    floor_exponent: Cost


class TileSpill(Description):
    """The loss of memory rate with working sets above `free_bytes`: (bytes / free)^`exponent`."""

    free_bytes: Count
    exponent: Cost


class SplitShape(Description):
    """Cost of splitting a large matmul unevenly, per output element of a core above `free_area`."""

    free_area: Count
    long_free_splits: Count
    long_ns: Cost
    short_free_splits: Count
    short_ns: Cost


class TimingConstants(Description):
    """Constants of the timing model; units and sources are in the file.

    N_CORES, CORELETS and RING_BYTES_CYCLE repeat entries of other sections. A file may leave them
    out: they are then derived (see `loading.DERIVED`).
    """

    OVERLAP: Literal["units", "serial", "overlapped", "overlapped_3way"]
    DDR_SHARING: Literal["pooled", "even"]
    LX_ACCESS: Literal["charged", "mixed_views"]
    WHOLE_CYCLES: bool
    N_CORES: Count
    CORELETS: Count
    CLOCK_GHZ: Rate
    PT_MAC_FP16: Count
    PT_MAC_FP8: Rate
    PT_MAC_INT8: Rate
    PT_MAC_INT4: Rate
    PT_MAC_FP32: Rate
    PT_SUSTAIN: Share
    PT_BMM_RATE: Share
    PT_3D2D_LO: Share
    PT_3D2D_HI: Share
    PT_BMM_BATCH: Count
    PT_BMM_CORES: Count
    PT_3D2D_BATCH: Count
    PT_FULL_ROWS: Count
    PT_FILL_EXP: Cost
    PT_SPLIT_SHAPE: SplitShape
    SFP_LANES_16: Count
    SFP_LANES_32: Count
    SFP_COST_SIMPLE: Count
    SFP_COST_DIVIDE: Count
    SFP_COST_TRANSCENDENTAL: Count
    SFP_COST_EXCHANGE: Count
    SFP_COST_RANDOM: Count
    SFP_REDUCE_PASSES: Count
    SFP_REDUCE_STICK: Annotated[int, Field(ge=0)]
    DDR_PEAK: Rate
    DDR_BW: Rate
    DDR_TURN: Cost
    DDR_RESTICK: Rate
    DDR_REDOUT: Rate
    DDR_ROW_REDUCTION: DecayingRate
    DDR_CAT_OUTER: FittedRate
    DDR_CAT_INNER: FittedRate
    DDR_TRANSPOSE_OUTER: FittedRate
    DDR_TRANSPOSE_FEW_OUTER: FewOuterRows
    DDR_BROADCAST_TALL_ROWS: Count
    DDR_BROADCAST_WIDE_COLUMNS: Count
    DDR_BROADCAST_UNKNOWN: Rate
    DDR_ROW_BROADCAST_TALL: FittedRate
    DDR_ROW_BROADCAST_SHORT: FittedRate
    DDR_ROW_BROADCAST_WIDE: FittedRate
    DDR_COLUMN_BROADCAST_TALL: FittedRate
    DDR_COLUMN_BROADCAST_SHORT: FittedRate
    DDR_COLUMN_BROADCAST_WIDE: FittedRate
    DDR_TILE_FILL: TileFill
    DDR_TILE_SPILL: TileSpill
    DDR_REREAD: Share
    DDR_WORD: Count
    DDR_BURST: Count
    DDR_REQ_NS: Cost
    DDR_CORES_G: Annotated[tuple[tuple[Count, Share], ...], Field(min_length=1)]
    LX_BYTES_CYCLE: Count
    RELAYOUT_A: Exact
    RELAYOUT_B: Cost
    RELAYOUT_K: Rate
    RELAYOUT_SPLITS: tuple[Count, Count]
    RING_BYTES_CYCLE: Count
    RING_HOP_CYCLES: Annotated[int, Field(ge=0)]
    TRANSPOSE_BYTES_CYCLE: Count
    STEP_NS: Cost
    LOOP_ITER_NS: Cost
    LAUNCH_US: Cost
    PCIE_GBS: Rate
    PCIE_LAT_US: Cost

    @field_validator("DDR_CORES_G")
    @classmethod
    def check_order(cls, table: tuple[tuple[int, Any], ...]) -> tuple[tuple[int, Any], ...]:
        cores = [count for count, _ in table]
        _require(cores == sorted(set(cores)), "the numbers of cores must be ascending")
        return table

    @model_validator(mode="after")
    def check(self) -> "TimingConstants":
        _require(self.DDR_BW <= self.DDR_PEAK, "DDR_BW is more than DDR_PEAK")
        return self


class Source(Description):
    """Unit and origin of one entry; `entry` is its dotted name. Text has no unit."""

    entry: str
    unit: str | None
    source: str


class CardDescription(Description):
    path: Path
    sources: tuple[Source, ...]
    identity: Identity
    compute: Compute
    memory: Memory
    ring: Ring
    host_link: HostLink
    power: Power
    timing: TimingConstants

    @model_validator(mode="after")
    def check(self) -> "CardDescription":
        compute, timing = self.compute, self.timing
        for names, value, repeated in (
            ("compute.cores and timing.N_CORES", compute.cores, timing.N_CORES),
            ("compute.corelets and timing.CORELETS", compute.corelets, timing.CORELETS),
            (
                "ring.bytes_per_cycle and timing.RING_BYTES_CYCLE",
                self.ring.bytes_per_cycle,
                timing.RING_BYTES_CYCLE,
            ),
            (
                "host_link.gigabytes_per_second and timing.PCIE_GBS",
                self.host_link.gigabytes_per_second,
                timing.PCIE_GBS,
            ),
            (
                "host_link.latency_us and timing.PCIE_LAT_US",
                self.host_link.latency_us,
                timing.PCIE_LAT_US,
            ),
        ):
            _require(value == repeated, f"{names} are the same number and must agree")
        return self

    @cached_property
    def digest(self) -> str:
        """Return a hash of every value, for the keys of caches that outlive the process.

        Cards with equal values have equal digests, whatever files they come from.
        """
        values = self.model_dump_json(exclude={"path", "sources"})
        return hashlib.sha256(values.encode()).hexdigest()


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)

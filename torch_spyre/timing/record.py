"""What the clock must know about a program: its steps, and how much of which work each has.

All amounts are for one trip of the step's loop. Where there are two, one is the sum over the chip
and the other that of the busiest core: the first is what counters add up, the second is what takes
time. Records are checked when they are made, and travel as JSON.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import SpyreError

# Programs carry their record, and C++ must be able to hold what they say.
_LARGEST = 2**63 - 1
Amount = Annotated[int, Field(ge=0, le=_LARGEST)]
Positive = Annotated[int, Field(gt=0, le=_LARGEST)]
Name = Annotated[str, Field(max_length=1000)]

_CHECKED = ConfigDict(strict=True, extra="forbid")


class TimingRecordError(SpyreError, ValueError):
    """The record of a program is malformed, or is not one that this card can run."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"timing record: {problem}")


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class PtWork:
    """Matrix work. The shape facts are those of the output tile of one core."""

    macs: Amount
    busiest_core_macs: Amount
    format: Literal["fp16", "fp8", "int8", "int4", "fp32"] = "fp16"
    # batched: both operands have a batch dimension, in the default device layout.
    # projection: a batched operand times one matrix.
    kind: Literal["matmul", "batched", "projection"] = "matmul"
    batch: Positive = 1
    rows: Positive
    columns: Positive = 1
    row_splits: Positive = 1
    column_splits: Positive = 1
    # The loop around this step runs over output tiles; the array then stays full between trips.
    output_tiled: bool = False


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class SfpWork:
    """Vector work of one op: every element passes through the unit as often as its cost says."""

    cost: Literal["simple", "copy", "divide", "transcendental", "reduce"]
    elements: Amount
    busiest_core_elements: Amount
    element_bytes: Literal[1, 2, 4] = 2
    # Sticks of results, packed full, that a core reduces inside the stick; 0 across sticks.
    reduced_sticks: Amount = 0


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class DdrTransfer:
    """Sticks that cross between device memory and the cores.

    `bytes` counts a stick once for each core that moves it, `distinct_bytes` once for the chip. A
    `multicast` read delivers one fetched stick to all cores that want it.
    """

    direction: Literal["read", "write"]
    bytes: Amount
    distinct_bytes: Amount
    busiest_core_bytes: Amount
    # Contiguous bytes one core moves before it jumps.
    run_bytes: Positive
    multicast: bool = False
    # Reads of one program input by several steps are charged once: they carry the same name here.
    shared_input: Name = ""
    # Bytes the busiest core takes from scratchpads in the same access: a view of both memories.
    mixed_lx_bytes: Amount = 0

    def __post_init__(self) -> None:
        for name in ("bytes", "distinct_bytes", "busiest_core_bytes"):
            amount = getattr(self, name)
            _require(amount % BYTES_IN_STICK == 0, f"{name} {amount} is not whole sticks")
        _require(self.distinct_bytes <= self.bytes, "distinct_bytes is more than bytes")
        _require(self.direction == "read" or not self.multicast, "a write cannot be multicast")
        _require(self.direction == "read" or not self.shared_input, "a write is not an input")


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class DdrPattern:
    """An access to device memory for which upstream measured a rate of its own.

    `rows` and `columns` are those of the whole tensor; a broadcast may leave them out. A scalar is
    a `column_broadcast`. `outer` is the outermost dimension of a transpose.
    """

    kind: Literal[
        "restickify",
        "cross_row_reduction",
        "row_reduction",
        "cat_outer",
        "cat_inner",
        "transpose_outer",
        "row_broadcast",
        "column_broadcast",
    ]
    rows: Positive | None = None
    columns: Positive | None = None
    outer: Positive | None = None

    def __post_init__(self) -> None:
        needed = _FACTS_OF_PATTERN.get(self.kind, ())
        missing = [name for name in needed if getattr(self, name) is None]
        _require(not missing, f"{self.kind} needs {', '.join(missing)}")


_FACTS_OF_PATTERN = {
    "row_reduction": ("rows",),
    "cat_outer": ("rows", "columns"),
    "cat_inner": ("rows", "columns"),
    "transpose_outer": ("rows", "columns", "outer"),
}


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class LxTraffic:
    """Scratchpad bytes of all operands read and written, those staged from device memory too."""

    bytes: Amount
    busiest_core_bytes: Amount


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class RingTransfer:
    """Bytes on the ring. `exposed`: the program waits for them and has nothing else to do."""

    busiest_link_bytes: Amount
    hops: Amount
    byte_hops: Amount
    exposed: bool = True

    @classmethod
    def partial_sums(cls, *, cores: int, output_bytes: int, chains: int) -> "RingTransfer":
        """A product split along K: in each of `chains`, partials go from core to core."""
        hops = cores - 1
        link_bytes = output_bytes if hops else 0
        return cls(busiest_link_bytes=link_bytes, hops=hops, byte_hops=hops * output_bytes * chains)

    @classmethod
    def all_reduce(cls, *, cores: int, tile_bytes: int) -> "RingTransfer":
        """Each core forwards what it received, in cores - 1 rounds: ktdp.inter_tile_reduce."""
        sent = (cores - 1) * tile_bytes
        return cls(busiest_link_bytes=sent, hops=cores - 1, byte_hops=cores * sent)


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class Relayout:
    """A buffer in scratchpads goes over the ring to the cores that own it under another division.

    `splits` is the split of the innermost split dimension. The ring figures, where the compiler
    knows them, only keep the time above what the links allow.
    """

    bytes: Amount
    run_bytes: Positive
    splits: Positive
    busiest_link_bytes: Amount = 0
    hops: Amount = 0
    byte_hops: Amount = 0


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class Step:
    """One op of a program, done `trips` times on `cores` cores at once."""

    name: Name
    op: Name
    cores: Positive
    trips: Amount = 1
    pt: tuple[PtWork, ...] = ()
    sfp: tuple[SfpWork, ...] = ()
    ddr: tuple[DdrTransfer, ...] = ()
    ddr_pattern: DdrPattern | None = None
    lx: tuple[LxTraffic, ...] = ()
    ring: tuple[RingTransfer, ...] = ()
    relayouts: tuple[Relayout, ...] = ()

    def __post_init__(self) -> None:
        amounts = [
            *(("macs", work.macs, work.busiest_core_macs) for work in self.pt),
            *(("elements", work.elements, work.busiest_core_elements) for work in self.sfp),
            *(("DDR bytes", move.bytes, move.busiest_core_bytes) for move in self.ddr),
            *(("LX bytes", traffic.bytes, traffic.busiest_core_bytes) for traffic in self.lx),
        ]
        for what, total, busiest in amounts:
            _require(
                busiest <= total <= busiest * self.cores,
                f"step {self.name}: {total} {what} on {self.cores} cores, {busiest} on the busiest",
            )
        _require(
            self.ddr_pattern is None or bool(self.ddr),
            f"step {self.name}: a pattern of device memory, and no transfer",
        )


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class ProgramRecord:
    """A program as the clock sees it. `lx_peak_bytes` is the most that a core holds at once."""

    name: Name
    steps: tuple[Step, ...]
    lx_peak_bytes: Amount = 0

    def to_json(self) -> str:
        return _ADAPTER.dump_json(self).decode()

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return content

    @classmethod
    def from_json(cls, text: str | bytes) -> "ProgramRecord":
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            first, count = error.errors(include_url=False)[0], error.error_count()
            place = ".".join(map(str, first["loc"])) or "record"
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise TimingRecordError(f"{place}: {first['msg']}{more}") from None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ProgramRecord":
        try:
            text = json.dumps(content)
        except (TypeError, ValueError) as error:
            raise TimingRecordError(f"not plain data: {error}") from None
        return cls.from_json(text)


_ADAPTER = TypeAdapter(ProgramRecord)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)

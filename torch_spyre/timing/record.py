"""Records of programs, the input of the timing model: steps, and the work of every step.

All amounts are for one trip of the step's loop. Where there are two, the first is the sum over the
chip, which counters add up, and the second that of the busiest core, which takes the time. Records
are validated when they are created, and are serialised as JSON.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import TimingRecordError

# Programs contain their record, and C++ holds its amounts as int64.
_MAX_AMOUNT = 2**63 - 1
Amount = Annotated[int, Field(ge=0, le=_MAX_AMOUNT)]
Positive = Annotated[int, Field(gt=0, le=_MAX_AMOUNT)]
Name = Annotated[str, Field(max_length=1000)]

_CHECKED = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class PtWork:
    """Work of the matrix unit. Shapes are those of the output tile of one core."""

    macs: Amount
    busiest_core_macs: Amount
    format: Literal["fp16", "fp8", "int8", "int4", "fp32"] = "fp16"
    # batched: both operands have a batch dimension, in the default device layout.
    # projection: a matmul of a batched operand with one matrix.
    kind: Literal["matmul", "batched", "projection"] = "matmul"
    batch: Positive = 1
    rows: Positive
    columns: Positive = 1
    row_splits: Positive = 1
    column_splits: Positive = 1
    # True if the loop around this step runs over output tiles: the array stays full between trips.
    output_tiled: bool = False


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class SfpWork:
    """Work of the vector unit for one op: its cost class decides the passes of every element."""

    cost: Literal["simple", "copy", "divide", "transcendental", "random", "reduce", "exchange"]
    elements: Amount
    busiest_core_elements: Amount
    element_bytes: Literal[1, 2, 4] = 2
    # Full sticks of results that a core reduces inside sticks; 0 for reductions across sticks.
    reduced_sticks: Amount = 0


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class DdrTransfer:
    """Sticks that move between device memory and the cores.

    `bytes` counts a stick once for every core that moves it, `distinct_bytes` once for the chip. A
    `multicast` read delivers one fetched stick to all cores that need it.
    """

    direction: Literal["read", "write"]
    bytes: Amount
    distinct_bytes: Amount
    busiest_core_bytes: Amount
    # Contiguous bytes that one core moves at a time.
    run_bytes: Positive
    multicast: bool = False
    # Reads of one program input by several steps have the same name here, and are charged once.
    shared_input: Name = ""
    # Bytes that the busiest core reads from scratchpads in the same access (view of both memories).
    mixed_lx_bytes: Amount = 0
    # Of the bytes that are fetched: those that a loop around a matmul reads once more.
    reread_bytes: Amount = 0

    def __post_init__(self) -> None:
        for name in ("bytes", "distinct_bytes", "busiest_core_bytes"):
            amount = getattr(self, name)
            _require(amount % BYTES_IN_STICK == 0, f"{name} {amount} is not whole sticks")
        _require(self.distinct_bytes <= self.bytes, "distinct_bytes is more than bytes")
        _require(self.direction == "read" or not self.multicast, "a write cannot be multicast")
        _require(self.direction == "read" or not self.shared_input, "a write is not an input")
        _require(self.direction == "read" or not self.reread_bytes, "a write reads nothing")
        _require(self.reread_bytes <= self.distinct_bytes, "reread_bytes is more than is fetched")


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class DdrPattern:
    """An access pattern of device memory whose rate upstream measured.

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
        required = _REQUIRED_SIZES.get(self.kind, ())
        missing = [name for name in required if getattr(self, name) is None]
        _require(not missing, f"{self.kind} needs {', '.join(missing)}")


_REQUIRED_SIZES = {
    "row_reduction": ("rows",),
    "cat_outer": ("rows", "columns"),
    "cat_inner": ("rows", "columns"),
    "transpose_outer": ("rows", "columns", "outer"),
}


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class TileLoop:
    """A loop over tiles: rows and columns of the tile that a core transfers in each iteration."""

    rows: Positive
    columns: Positive
    element_bytes: Positive = 2


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class LxTraffic:
    """Scratchpad bytes of all operands, including those staged from device memory."""

    bytes: Amount
    busiest_core_bytes: Amount


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class RingTransfer:
    """Bytes on the ring. The program waits for an `exposed` transfer without other work."""

    busiest_link_bytes: Amount
    hops: Amount
    byte_hops: Amount
    exposed: bool = True

    @classmethod
    def partial_sums(cls, *, cores: int, output_bytes: int, chains: int) -> "RingTransfer":
        """Return the transfer of a matmul split along K: chains of cores that pass partial sums."""
        hops = cores - 1
        link_bytes = output_bytes if hops else 0
        return cls(busiest_link_bytes=link_bytes, hops=hops, byte_hops=hops * output_bytes * chains)

    @classmethod
    def all_reduce(cls, *, cores: int, tile_bytes: int) -> "RingTransfer":
        """Return the transfer of ktdp.inter_tile_reduce: in cores - 1 rounds, all cores forward."""
        sent = (cores - 1) * tile_bytes
        return cls(busiest_link_bytes=sent, hops=cores - 1, byte_hops=cores * sent)


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class Relayout:
    """A buffer in scratchpads that moves over the ring to its owners under another work division.

    `splits` is the split of the innermost split dimension. The ring amounts, if the compiler has
    them, are a lower bound of the time.
    """

    bytes: Amount
    run_bytes: Positive
    splits: Positive
    busiest_link_bytes: Amount = 0
    hops: Amount = 0
    byte_hops: Amount = 0


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class Step:
    """One op of a program, executed `trips` times on `cores` cores."""

    name: Name
    op: Name
    cores: Positive
    trips: Amount = 1
    pt: tuple[PtWork, ...] = ()
    sfp: tuple[SfpWork, ...] = ()
    ddr: tuple[DdrTransfer, ...] = ()
    ddr_pattern: DdrPattern | None = None
    tile_loop: TileLoop | None = None
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
        for unit, total, busiest in amounts:
            _require(
                busiest <= total <= busiest * self.cores,
                f"step {self.name}: {total} {unit} on {self.cores} cores, {busiest} on the busiest",
            )
        _require(
            self.ddr_pattern is None or bool(self.ddr),
            f"step {self.name}: a pattern of device memory without a transfer",
        )


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class ProgramRecord:
    """A program for the timing model; `lx_peak_bytes` is the peak scratchpad use of a core."""

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
            location = ".".join(map(str, first["loc"])) or "record"
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise TimingRecordError(f"{location}: {first['msg']}{more}") from None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ProgramRecord":
        try:
            text = json.dumps(content)
        except (TypeError, ValueError) as error:
            raise TimingRecordError(f"not plain data: {error}") from None
        return cls.from_json(text)


_ADAPTER = TypeAdapter(ProgramRecord)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)

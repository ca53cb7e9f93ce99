"""Records of compiled programs, from what the recorder counted in them (`_C.record_program`).

Each instruction that does work becomes a step. Its amounts are those of all its executions: the
recorder has followed every loop, so a step has one trip.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

from torch_spyre.timing.record import (
    DdrTransfer,
    LxTraffic,
    ProgramRecord,
    PtWork,
    RingTransfer,
    SfpWork,
    Step,
)

SfpCost = Literal["simple", "copy", "divide", "transcendental", "reduce"]
PtFormat = Literal["fp16", "fp8", "int8", "fp32"]
# The sum over the chip, and that of the busiest core.
Count = tuple[int, int]


class Delivery(TypedDict):
    """How tiles went between cores: `cores` is the size of a group."""

    kind: Literal["consume", "reduce", "reduce_scatter", "gather", "all_to_all", "scatter"]
    cores: int
    tile_bytes: int


class InstructionCounts(TypedDict):
    """What `torch_spyre/csrc/emulator/engine/record.h` says of one instruction."""

    index: int
    op: str
    cores: int
    executions: Count
    elements: Count
    lanes: Count
    reduced_sticks: Count
    macs: Count
    batch: int
    rows: int
    columns: int
    scratchpad_bytes: Count
    remote_bytes: Count
    device_bytes: Count
    distinct_device_bytes: int
    device_runs: int
    index_bytes: Count
    index_runs: int
    store: bool
    # Cost and element bytes of each vector instruction.
    vector_work: Sequence[tuple[SfpCost, int]]
    # Type of a matrix product's operands.
    matrix_type: str
    delivery: Delivery | None


class ProgramCounts(TypedDict):
    name: str
    scratchpad_bytes: int
    data_dependent: bool
    conflict: bool
    instructions: Sequence[InstructionCounts]


_FORMATS: dict[str, PtFormat] = {
    "f16": "fp16",
    "bf16": "fp16",
    "f8E4M3FN": "fp8",
    "f8E5M2FNUZ": "fp8",
    "i8": "int8",
}


def program_record(counts: ProgramCounts) -> ProgramRecord:
    """The record that `torch_spyre.timing.estimate` computes a time from."""
    steps = (_step(instruction) for instruction in counts["instructions"])
    return ProgramRecord(
        name=counts["name"],
        steps=tuple(step for step in steps if step is not None),
        lx_peak_bytes=counts["scratchpad_bytes"],
    )


def _step(counts: InstructionCounts) -> Step | None:
    step = Step(
        name=f"{counts['op']} [{counts['index']}]",
        op=counts["op"],
        cores=counts["cores"],
        pt=tuple(_matrix_work(counts)),
        sfp=tuple(_vector_work(counts)),
        ddr=tuple(_transfers(counts)),
        lx=tuple(_scratchpad(counts)),
        ring=tuple(_ring(counts)),
    )
    return step if step.pt or step.sfp or step.ddr or step.lx or step.ring else None


def _matrix_work(counts: InstructionCounts) -> Iterator[PtWork]:
    macs, busiest = counts["macs"]
    if macs == 0:
        return
    yield PtWork(
        macs=macs,
        busiest_core_macs=busiest,
        format=_FORMATS.get(counts["matrix_type"], "fp32"),
        kind="batched" if counts["batch"] > 1 else "matmul",
        batch=counts["batch"],
        rows=counts["rows"],
        columns=counts["columns"],
    )


def _vector_work(counts: InstructionCounts) -> Iterator[SfpWork]:
    # The busiest core takes whole vectors, also where its elements do not fill them.
    busiest = counts["lanes"][1]
    if busiest == 0:
        return
    for cost, element_bytes in counts["vector_work"]:
        yield SfpWork(
            cost=cost,
            elements=max(counts["elements"][0], busiest),
            busiest_core_elements=busiest,
            element_bytes=_width(element_bytes),
            reduced_sticks=counts["reduced_sticks"][1] if cost == "reduce" else 0,
        )


def _width(element_bytes: int) -> Literal[1, 2, 4]:
    if element_bytes == 1:
        return 1
    return 2 if element_bytes == 2 else 4


def _transfers(counts: InstructionCounts) -> Iterator[DdrTransfer]:
    total, busiest = counts["device_bytes"]
    distinct = counts["distinct_device_bytes"]
    if total:
        yield DdrTransfer(
            direction="write" if counts["store"] else "read",
            bytes=total,
            distinct_bytes=distinct,
            busiest_core_bytes=busiest,
            run_bytes=max(1, total // counts["device_runs"]),
            multicast=distinct < total and not counts["store"],
        )
    total, busiest = counts["index_bytes"]
    if total:
        yield DdrTransfer(
            direction="read",
            bytes=total,
            distinct_bytes=total,
            busiest_core_bytes=busiest,
            run_bytes=max(1, total // counts["index_runs"]),
        )


def _scratchpad(counts: InstructionCounts) -> Iterator[LxTraffic]:
    total, busiest = counts["scratchpad_bytes"]
    if total:
        yield LxTraffic(bytes=total, busiest_core_bytes=busiest)


# --- Ring -----------------------------------------------------------------------------------------


def _ring(counts: InstructionCounts) -> Iterator[RingTransfer]:
    delivery = counts["delivery"]
    if delivery is not None:
        if delivery["cores"] > 1:
            groups = max(1, counts["cores"] // delivery["cores"])
            once = _DELIVERIES[delivery["kind"]](delivery["cores"], delivery["tile_bytes"])
            yield _repeated(once, times=counts["executions"][1], groups=groups)
        return
    total, busiest = counts["remote_bytes"]
    if total:
        # Where the other core is depends on the kernel; it is taken to be a neighbour.
        hops = counts["executions"][1]
        yield RingTransfer(busiest_link_bytes=busiest, hops=hops, byte_hops=total)


def _repeated(once: RingTransfer, *, times: int, groups: int) -> RingTransfer:
    return RingTransfer(
        busiest_link_bytes=once.busiest_link_bytes * times,
        hops=once.hops * times,
        byte_hops=once.byte_hops * times * groups,
    )


def _consumed(cores: int, tile_bytes: int) -> RingTransfer:
    """A tile goes from core to core until all have it."""
    hops = cores - 1
    return RingTransfer(busiest_link_bytes=tile_bytes, hops=hops, byte_hops=hops * tile_bytes)


def _reduced(cores: int, tile_bytes: int) -> RingTransfer:
    return RingTransfer.all_reduce(cores=cores, tile_bytes=tile_bytes)


def _reduce_scattered(cores: int, tile_bytes: int) -> RingTransfer:
    """The rounds of a reduction, each with the part of the tile that one core keeps."""
    return _reduced(cores, _part(tile_bytes, cores))


def _scattered(cores: int, tile_bytes: int) -> RingTransfer:
    """One core sends each of the others its part: the first link carries all of them."""
    part = _part(tile_bytes, cores)
    hops = cores - 1
    return RingTransfer(
        busiest_link_bytes=hops * part, hops=hops, byte_hops=part * cores * hops // 2
    )


def _exchanged(cores: int, tile_bytes: int) -> RingTransfer:
    """Each core sends each other one a part, the shorter way: on average a quarter of the ring."""
    part = _part(tile_bytes, cores)
    return RingTransfer(
        busiest_link_bytes=-(-cores * cores // 8) * part,
        hops=cores // 2,
        byte_hops=cores * (cores * cores // 4) * part,
    )


def _part(tile_bytes: int, cores: int) -> int:
    return -(-tile_bytes // cores)


_DELIVERIES = {
    "consume": _consumed,
    "reduce": _reduced,
    "reduce_scatter": _reduce_scattered,
    "gather": _reduced,  # as many rounds, each with a tile
    "all_to_all": _exchanged,
    "scatter": _scattered,
}

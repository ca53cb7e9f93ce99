"""Converts the counts of the recorder (`_C.record_program`) to the record of a compiled program.

Every instruction that does work becomes a step with one trip: the recorder has followed all loops,
so its amounts are those of all executions.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypedDict, cast

from torch_spyre import _C
from torch_spyre.backend.program.instructions import (
    Chain,
    ChainStep,
    Copy,
    Delivered,
    DeliveryKind,
    ElementType,
    IndirectTransfer,
    Instruction,
    Matmul,
    ProgramContent,
    Receive,
    Reduce,
    Transfer,
)
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
# The sum over the chip, and the count of the busiest core.
Count = tuple[int, int]


class InstructionCounts(TypedDict):
    """Counts of one instruction, as in `csrc/emulator/engine/record.h`."""

    index: int
    cores: int
    executions: Count
    elements: Count
    lanes: Count
    reduced_sticks: Count
    macs: Count
    batch: int
    rows: int
    columns: int
    inner: int
    scratchpad_bytes: Count
    remote_bytes: Count
    device_bytes: Count
    distinct_device_bytes: int
    unique_device_bytes: int
    device_runs: int
    index_bytes: Count
    index_runs: int


# The format of the matrix unit for operands of a kind (float or not) and width.
_FORMATS: dict[tuple[bool, int], PtFormat] = {
    (True, 16): "fp16",
    (True, 8): "fp8",
    (False, 8): "int8",
}


def record_of(content: ProgramContent, counts: Mapping[str, Any]) -> ProgramRecord:
    """Return the record that `torch_spyre.timing.estimate` computes a time from."""
    instructions: Sequence[InstructionCounts] = counts["instructions"]
    steps = (_step(content, content.code[counted["index"]], counted) for counted in instructions)
    return ProgramRecord(
        name=content.name,
        steps=tuple(step for step in steps if step is not None),
        lx_peak_bytes=content.scratchpad_bytes,
    )


def _step(
    content: ProgramContent, instruction: Instruction, counts: InstructionCounts
) -> Step | None:
    location = content.locations[instruction.location]
    step = Step(
        name=f"{location.op} [{counts['index']}]",
        op=location.op,
        cores=counts["cores"],
        pt=tuple(_matrix_work(instruction, counts)),
        sfp=tuple(_vector_work(instruction, counts)),
        ddr=tuple(_transfers(instruction, counts)),
        lx=tuple(_scratchpad(counts)),
        ring=tuple(_ring(instruction, counts)),
    )
    return step if step.pt or step.sfp or step.ddr or step.lx or step.ring else None


def _matrix_work(instruction: Instruction, counts: InstructionCounts) -> Iterator[PtWork]:
    macs, busiest = counts["macs"]
    if not isinstance(instruction, Matmul) or macs == 0:
        return
    operand = instruction.a.type
    yield PtWork(
        macs=macs,
        busiest_core_macs=busiest,
        format=_FORMATS.get((operand.is_float, operand.bits), "fp32"),
        kind="batched" if counts["batch"] > 1 else "matmul",
        batch=counts["batch"],
        rows=counts["rows"],
        columns=counts["columns"],
    )


# --- Vector unit ----------------------------------------------------------------------------------


def _vector_work(instruction: Instruction, counts: InstructionCounts) -> Iterator[SfpWork]:
    # The busiest core processes whole vectors, even if its elements do not fill them.
    busiest = counts["lanes"][1]
    if busiest == 0:
        return
    for cost, types in _vector_instructions(instruction):
        yield SfpWork(
            cost=cost,
            elements=max(counts["elements"][0], busiest),
            busiest_core_elements=busiest,
            element_bytes=_width(types),
            reduced_sticks=counts["reduced_sticks"][1] if cost == "reduce" else 0,
        )


def _vector_instructions(
    instruction: Instruction,
) -> Iterator[tuple[SfpCost, tuple[ElementType, ...]]]:
    """Yield the cost class and types of every vector operation of an instruction."""
    if isinstance(instruction, Copy):
        yield "copy", (instruction.source.type,)
    if isinstance(instruction, Chain | Reduce):
        for step in instruction.steps:
            yield _cost(step), _types(step)
    if isinstance(instruction, Chain) and not instruction.steps:
        for output in instruction.outputs:
            yield "copy", (output.operand.type,)
    if isinstance(instruction, Reduce) and instruction.combine:
        yield "reduce", (instruction.outputs[0].type,)
    elif isinstance(instruction, Reduce):
        for step in instruction.combiner:
            yield "reduce", _types(step)


def _cost(step: ChainStep) -> SfpCost:
    # An element that is looked up by its index passes through the unit once, like a copy.
    return "copy" if step.lookup >= 0 else _costs()[step.op]


def _types(step: ChainStep) -> tuple[ElementType, ...]:
    return (step.result,) if step.lookup >= 0 else (step.operand, step.result)


@cache
def _costs() -> dict[str, SfpCost]:
    return {name: cast(SfpCost, cost) for name, _, cost in _C._vector_ops()}


def _width(types: tuple[ElementType, ...]) -> Literal[1, 2, 4]:
    widest = max(type.bytes for type in types)
    if widest == 1:
        return 1
    return 2 if widest == 2 else 4


# --- Memory ---------------------------------------------------------------------------------------


def _transfers(instruction: Instruction, counts: InstructionCounts) -> Iterator[DdrTransfer]:
    store = isinstance(instruction, Transfer | IndirectTransfer) and instruction.store
    total, busiest = counts["device_bytes"]
    distinct = counts["distinct_device_bytes"]
    if total:
        yield DdrTransfer(
            direction="write" if store else "read",
            bytes=total,
            distinct_bytes=distinct,
            busiest_core_bytes=busiest,
            run_bytes=max(1, total // counts["device_runs"]),
            multicast=distinct < total and not store,
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


def _ring(instruction: Instruction, counts: InstructionCounts) -> Iterator[RingTransfer]:
    if isinstance(instruction, Receive):
        return  # The transfer is counted where it is delivered.
    if isinstance(instruction, Delivered):
        if instruction.cores > 1:
            groups = max(1, counts["cores"] // instruction.cores)
            once = _DELIVERIES[instruction.kind](instruction.cores, instruction.tile_bytes)
            yield _repeated(once, times=counts["executions"][1], groups=groups)
        return
    total, busiest = counts["remote_bytes"]
    if total:
        # The distance of the cores depends on the kernel; they are assumed to be neighbours.
        hops = counts["executions"][1]
        yield RingTransfer(busiest_link_bytes=busiest, hops=hops, byte_hops=total)


def _repeated(once: RingTransfer, *, times: int, groups: int) -> RingTransfer:
    return RingTransfer(
        busiest_link_bytes=once.busiest_link_bytes * times,
        hops=once.hops * times,
        byte_hops=once.byte_hops * times * groups,
    )


def _consumed(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the transfer of a tile that is passed from core to core until all have it."""
    hops = cores - 1
    return RingTransfer(busiest_link_bytes=tile_bytes, hops=hops, byte_hops=hops * tile_bytes)


def _reduced(cores: int, tile_bytes: int) -> RingTransfer:
    return RingTransfer.all_reduce(cores=cores, tile_bytes=tile_bytes)


def _reduce_scattered(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the rounds of a reduction, with the slice of the tile that one core retains."""
    return _reduced(cores, _slice_bytes(tile_bytes, cores))


def _scattered(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the transfer of one core that sends all cores their slices over its first link."""
    slice_bytes = _slice_bytes(tile_bytes, cores)
    hops = cores - 1
    return RingTransfer(
        busiest_link_bytes=hops * slice_bytes, hops=hops, byte_hops=slice_bytes * cores * hops // 2
    )


def _exchanged(cores: int, tile_bytes: int) -> RingTransfer:
    """Return the exchange of slices between all pairs of cores, on average a quarter ring apart."""
    slice_bytes = _slice_bytes(tile_bytes, cores)
    return RingTransfer(
        busiest_link_bytes=-(-cores * cores // 8) * slice_bytes,
        hops=cores // 2,
        byte_hops=cores * (cores * cores // 4) * slice_bytes,
    )


def _slice_bytes(tile_bytes: int, cores: int) -> int:
    return -(-tile_bytes // cores)


_DELIVERIES = {
    DeliveryKind.CONSUME: _consumed,
    DeliveryKind.REDUCE: _reduced,
    DeliveryKind.REDUCE_SCATTER: _reduce_scattered,
    DeliveryKind.GATHER: _reduced,  # the same number of rounds, with a tile in each
    DeliveryKind.ALL_TO_ALL: _exchanged,
    DeliveryKind.SCATTER: _scattered,
}

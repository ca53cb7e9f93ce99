"""Converts the counts of the recorder (`_C.record_program`) to the record of a compiled program.

Every instruction that does work becomes a step with one trip: the recorder has followed all loops,
so its amounts are those of all executions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

from torch_spyre import _C
from torch_spyre.backend.program.instructions import (
    Chain,
    ChainStep,
    Copy,
    ElementType,
    Indexed,
    IndirectTransfer,
    Instruction,
    Matmul,
    ProgramContent,
    Reduce,
    Sort,
    Transfer,
)
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.deliveries import relayouts, ring_transfers
from torch_spyre.timing.matmul_work import matmul_work
from torch_spyre.timing.patterns import Patterns, patterns_of
from torch_spyre.timing.record import (
    DdrTransfer,
    LxTraffic,
    ProgramRecord,
    PtWork,
    SfpWork,
    Step,
    TileLoop,
)
from torch_spyre.timing.tile_flow import TileFlow, tile_flow
from torch_spyre.timing.tile_loops import tile_loops

SfpCost = Literal["simple", "copy", "divide", "transcendental", "random", "reduce", "exchange"]


@dataclass(frozen=True)
class _Program:
    """A program with its counts and all that steps are derived from."""

    content: ProgramContent
    counts: Mapping[int, InstructionCounts]
    flow: TileFlow
    patterns: Patterns
    loops: Mapping[int, TileLoop]
    # The loads that feed a matmul: upstream found their repetition in a loop cheaper.
    matmul_loads: frozenset[int]


def record_of(content: ProgramContent, counts: Mapping[str, Any]) -> ProgramRecord:
    """Return the record that `torch_spyre.timing.estimate` computes a time from."""
    instructions: Sequence[InstructionCounts] = counts["instructions"]
    by_index = {counted["index"]: counted for counted in instructions}
    flow = tile_flow(content)
    program = _Program(
        content,
        by_index,
        flow,
        patterns_of(content, flow, by_index),
        tile_loops(content, flow, by_index),
        _matmul_loads(content, flow),
    )
    steps = (_step(program, index) for index in by_index)
    return ProgramRecord(
        name=content.name,
        steps=tuple(step for step in steps if step is not None),
        lx_peak_bytes=content.scratchpad_bytes,
    )


def _step_name(op: str, index: int) -> str:
    return f"{op} [{index}]"


def instruction_index(step_name: str) -> int:
    """Return the index of the instruction that a step of `record_of` was made for."""
    return int(step_name.rpartition("[")[2].removesuffix("]"))


def _matmul_loads(content: ProgramContent, flow: TileFlow) -> frozenset[int]:
    matmuls = (index for index, item in enumerate(content.code) if isinstance(item, Matmul))
    tiles = (tile for index in matmuls for tile in flow.operands[index] if tile is not None)
    return frozenset(loaded.load for tile in tiles for loaded in tile.tiles)


def _step(program: _Program, index: int) -> Step | None:
    instruction, counts = program.content.code[index], program.counts[index]
    location = program.content.locations[instruction.location]
    transfers = tuple(_transfers(program, instruction, counts))
    step = Step(
        name=_step_name(location.op, index),
        op=location.op,
        cores=counts["cores"],
        pt=tuple(_matrix_work(program, instruction, index)),
        sfp=tuple(_vector_work(instruction, counts)),
        ddr=transfers,
        ddr_pattern=program.patterns.get(index) if transfers else None,
        tile_loop=program.loops.get(index) if transfers else None,
        lx=tuple(_scratchpad(counts)),
        ring=tuple(ring_transfers(instruction, counts)),
        relayouts=tuple(relayouts(instruction, counts)),
    )
    has_work = step.pt or step.sfp or step.ddr or step.lx or step.ring or step.relayouts
    return step if has_work else None


def _matrix_work(program: _Program, instruction: Instruction, index: int) -> Iterator[PtWork]:
    if isinstance(instruction, Matmul):
        work = matmul_work(instruction, index, program.flow, program.counts)
        if work is not None:
            yield work


# --- Vector unit ----------------------------------------------------------------------------------


def _vector_work(instruction: Instruction, counts: InstructionCounts) -> Iterator[SfpWork]:
    if isinstance(instruction, Sort):
        yield from _sorting_network(instruction, counts)
        return
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


def _sorting_network(sort: Sort, counts: InstructionCounts) -> Iterator[SfpWork]:
    """Yield the compare-exchange stages of a sort: all elements pass every stage."""
    total, busiest = counts["exchanges"]
    if busiest:
        yield SfpWork(
            cost="exchange",
            elements=total,
            busiest_core_elements=busiest,
            element_bytes=_width((sort.keys.type, sort.indices.type)),
        )


def _vector_instructions(
    instruction: Instruction,
) -> Iterator[tuple[SfpCost, tuple[ElementType, ...]]]:
    """Yield the cost class and types of every vector operation of an instruction."""
    if isinstance(instruction, Copy):
        yield "copy", (instruction.source.type,)
    if isinstance(instruction, Indexed):
        types = (instruction.tile.type, instruction.table.type)
        yield _costs()[instruction.combine] if instruction.combine else "copy", types
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


def _transfers(
    program: _Program, instruction: Instruction, counts: InstructionCounts
) -> Iterator[DdrTransfer]:
    store = isinstance(instruction, Transfer | IndirectTransfer) and instruction.store
    total, busiest = counts["device_bytes"]
    distinct = counts["distinct_device_bytes"]
    if total:
        is_reread = counts["index"] in program.matmul_loads
        yield DdrTransfer(
            direction="write" if store else "read",
            bytes=total,
            distinct_bytes=distinct,
            busiest_core_bytes=busiest,
            run_bytes=max(1, total // counts["device_runs"]),
            multicast=distinct < total and not store,
            reread_bytes=max(0, distinct - counts["unique_device_bytes"]) if is_reread else 0,
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

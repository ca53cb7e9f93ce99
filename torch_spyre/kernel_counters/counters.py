"""Counters of a kernel: by instruction, by core, and for the kernel as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from torch_spyre.backend.execution import counts_by_core, program_record, timing_of
from torch_spyre.backend.program.instructions import ProgramContent
from torch_spyre.backend.program.labels import Labels
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import load_card
from torch_spyre.kernel_counters.unit_cycles import UNITS, UnitCycles, unit_cycles
from torch_spyre.timing import StepSpan, Timing, Unit
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.from_counts import instruction_index
from torch_spyre.timing.units import cycle_ps

# The counter that the work of a core's own units is proportional to; the others are shared.
_COUNTER_OF_UNIT: dict[Unit, str] = {"pt": "macs", "sfp": "lanes", "lx": "scratchpad_bytes"}


@dataclass(frozen=True)
class InstructionCounters:
    """One instruction of a launch.

    `executions` are those of each core. `time_ps` is its share of the kernel's time; all add up to
    it. `busy_ps` is the time for which it keeps each unit busy, on the busiest core, if it does not
    wait: instructions overlap, so these times may exceed its share. `device_bytes` counts what
    several cores load at the same time once.
    """

    index: int
    label: str
    # The KTIR op, with line and column if it has them, and the user's op and line if known.
    source: str
    origin: str
    executions: tuple[int, ...]
    time_ps: int
    busy_ps: Mapping[Unit, int]
    macs: int
    scratchpad_bytes: int
    device_bytes: int

    @property
    def cores(self) -> int:
        return sum(1 for count in self.executions if count)

    @property
    def bound_by(self) -> Unit | None:
        """Return the unit that the instruction keeps busy for longest; None if it needs none."""
        unit = max(UNITS, key=lambda name: self.busy_ps.get(name, 0))
        return unit if self.busy_ps.get(unit, 0) else None


@dataclass(frozen=True)
class CoreCounters:
    """One core during a launch: what it executes, and the cycles of its own units."""

    core: int
    executions: int
    units: Mapping[Unit, UnitCycles]


@dataclass(frozen=True)
class KernelCounters:
    """One launch of a program. `units` are those of the busiest core, and the shared ones."""

    name: str
    ops: tuple[str, ...]
    content: ProgramContent
    timing: Timing
    instructions: tuple[InstructionCounters, ...]
    units: Mapping[Unit, UnitCycles]
    cores: tuple[CoreCounters, ...]


def kernel_counters(
    program: Program,
    array_bytes: Sequence[int],
    scalars: Sequence[int] = (),
    ops: Sequence[str] = (),
    ktir_lines: Sequence[str] = (),
    memories: Sequence[int] = (),
) -> KernelCounters:
    """Return the counters of a launch with arrays of these sizes, as `timing_of` takes them.

    `ops` are those of the specs that the program computes, and `ktir_lines` the text that it was
    compiled from, as far as they are known.
    """
    counts = counts_by_core(program, array_bytes, scalars, memories)
    record = program_record(program, array_bytes, scalars, memories)
    timing = timing_of(program, array_bytes, scalars, memories)
    constants = load_card().timing
    units = unit_cycles(record, timing, is_parallel=constants.OVERLAP == "units")
    labels = Labels(program.content, ktir_lines, ops)
    instructions = tuple(_instructions(labels, counts, timing))
    return KernelCounters(
        program.name,
        tuple(ops) or (program.name,),
        program.content,
        timing,
        instructions,
        units,
        tuple(_cores(counts, timing, units, cycle_ps(constants))),
    )


def _instructions(
    labels: Labels, counts: Sequence[InstructionCounts], timing: Timing
) -> list[InstructionCounters]:
    spans = _spans_by_instruction(timing)
    result = []
    for entry in counts:
        index = entry["index"]
        span = spans.get(index)
        result.append(
            InstructionCounters(
                index,
                labels.label(index),
                labels.source(index),
                labels.origin(index),
                tuple(entry["by_core"]["executions"]),
                span.duration_ps if span else 0,
                {unit: getattr(span.busy, unit) for unit in UNITS} if span else {},
                entry["macs"][0],
                entry["scratchpad_bytes"][0],
                entry["distinct_device_bytes"] + entry["index_bytes"][0],
            )
        )
    return result


def _spans_by_instruction(timing: Timing) -> dict[int, StepSpan]:
    return {instruction_index(step.name): step for step in timing.steps}


def _cores(
    counts: Sequence[InstructionCounts],
    timing: Timing,
    units: Mapping[Unit, UnitCycles],
    cycle: Fraction,
) -> list[CoreCounters]:
    spans = _spans_by_instruction(timing)
    num_cores = max((len(entry["by_core"]["executions"]) for entry in counts), default=0)
    return [
        CoreCounters(
            core,
            sum(entry["by_core"]["executions"][core] for entry in counts),
            {
                unit: units[unit].with_busy(_busy_cycles(counts, spans, unit, core, units, cycle))
                for unit in _COUNTER_OF_UNIT
            },
        )
        for core in range(num_cores)
    ]


def _busy_cycles(
    counts: Sequence[InstructionCounts],
    spans: Mapping[int, StepSpan],
    unit: Unit,
    core: int,
    units: Mapping[Unit, UnitCycles],
    cycle: Fraction,
) -> int:
    """Return the cycles of a core's unit: for each instruction, in proportion to its work there."""
    total = Fraction(0)
    for entry in counts:
        amounts = entry["by_core"][_COUNTER_OF_UNIT[unit]]
        span, busiest = spans.get(entry["index"]), max(amounts)
        if span is not None and busiest:
            total += Fraction(getattr(span.busy, unit) * amounts[core], busiest)
    return min(round(total / cycle), units[unit].busy)

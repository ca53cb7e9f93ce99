"""Estimates the device time of a program: the only function that device times come from."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

from torch_spyre.cards import CardDescription, load_card
from torch_spyre.cards.description import TimingConstants
from torch_spyre.errors import TimingRecordError
from torch_spyre.timing.exact import PS_PER_NS, apportion, total
from torch_spyre.timing.memory import ProgramMemory, StepMemory, program_memory, step_memory
from torch_spyre.timing.record import (
    ProgramRecord,
    Relayout,
    RingTransfer,
    Step,
)
from torch_spyre.timing.result import (
    CoreUtilisation,
    StepSpan,
    Timing,
    Unit,
    UnitTimes,
    Utilisation,
)
from torch_spyre.timing.units import UnitCost, cycle_ps, unit_cost

# Of units with equal times, the first of these bounds the program: compute before memory, as in
# upstream's model.
_UNITS: tuple[Unit, ...] = ("pt", "sfp", "ddr", "lx", "ring")


@dataclass(frozen=True)
class _Demand:
    """Time that a program or a step needs of every unit, in exact ps."""

    pt: Fraction
    sfp: Fraction
    ddr: Fraction
    lx: Fraction
    ring_hidden: Fraction
    # These do not overlap with anything.
    ring_exposed: Fraction
    relayout: Fraction
    restick_extra: Fraction
    split_shape: Fraction

    @cached_property
    def by_unit(self) -> dict[Unit, Fraction]:
        """Return the time of every unit, including the time that does not overlap."""
        return {
            "pt": total((self.pt, self.split_shape)),
            "sfp": self.sfp,
            "ddr": total((self.ddr, self.restick_extra)),
            "lx": self.lx,
            "ring": total((self.ring_hidden, self.ring_exposed, self.relayout)),
        }

    @property
    def compute(self) -> Fraction:
        return self.by_unit["pt"] + self.by_unit["sfp"]

    @property
    def memory(self) -> Fraction:
        return self.by_unit["ddr"] + self.by_unit["lx"]

    @property
    def ring(self) -> Fraction:
        return self.by_unit["ring"]

    def unit_times(self) -> UnitTimes:
        return UnitTimes(**{unit: ceil(time) for unit, time in self.by_unit.items()})


def estimate(program: ProgramRecord, card: CardDescription | None = None) -> Timing:
    """Return the device time of one launch of a program; `card` is the card in use if None."""
    card = card or load_card()
    constants = card.timing
    _check_fits(program, card)
    costs = [unit_cost(step, constants) for step in program.steps]
    memories = [step_memory(step, constants) for step in program.steps]
    memory = program_memory(program.steps, memories, constants)
    demand = _program_demand(costs, memories, memory)
    fixed = _fixed_costs(program.steps, constants)
    time = _OVERLAP[constants.OVERLAP](demand) + fixed
    time_ps = ceil(time)
    spans = _spans(program.steps, costs, memories, time_ps)
    return Timing(
        time_ps=time_ps,
        serial_ps=ceil(_OVERLAP["serial"](demand) + fixed),
        cycles=ceil(time / cycle_ps(constants)),
        bound_by=max(_UNITS, key=lambda unit: demand.by_unit[unit]),
        busy=demand.unit_times(),
        utilisation=_utilisation(program, costs, memory, spans, card),
        busiest_core=_core_utilisation(program, costs, time_ps, constants),
        macs=sum(work.macs * step.trips for step in program.steps for work in step.pt),
        sfp_lane_ops=ceil(total(cost.sfp_lane_ops for cost in costs)),
        ddr_read_bytes=memory.read_bytes,
        ddr_write_bytes=memory.write_bytes,
        ddr_requests=memory.requests,
        lx_bytes=_lx_bytes(program),
        lx_peak_bytes=program.lx_peak_bytes,
        ring_byte_hops=_ring_byte_hops(program),
        relayout_ps=ceil(demand.relayout),
        ring_exposed_ps=ceil(demand.ring_exposed),
        restick_extra_ps=ceil(demand.restick_extra),
        split_shape_ps=ceil(demand.split_shape),
        steps=spans,
    )


def fingerprint(program: ProgramRecord, card: CardDescription | None = None) -> str:
    """Return a hash of the record and the constants; equal fingerprints mean equal timings."""
    card = card or load_card()
    constants = sorted((name, repr(value)) for name, value in card.timing)
    content = f"{program.to_json()}\n{constants}\n{card.ring!r}"
    return hashlib.sha256(content.encode()).hexdigest()


def _check_fits(program: ProgramRecord, card: CardDescription) -> None:
    """Raise `TimingRecordError` for a program that the card cannot run."""
    if program.lx_peak_bytes > card.compute.lx_bytes:
        raise TimingRecordError(
            f"program {program.name} needs {program.lx_peak_bytes} bytes of LX in a core, "
            f"and there are {card.compute.lx_bytes} on the card"
        )
    links = card.compute.cores * card.ring.directions
    for step in program.steps:
        if step.cores > card.compute.cores:
            raise TimingRecordError(
                f"step {step.name} needs {step.cores} cores, and there are {card.compute.cores}"
            )
        for item in _ring_items(step):
            if item.byte_hops > links * item.busiest_link_bytes:
                raise TimingRecordError(
                    f"step {step.name} has {item.byte_hops} byte hops on {links} links, "
                    f"{item.busiest_link_bytes} bytes on the busiest"
                )


# --- Time -----------------------------------------------------------------------------------------


def _program_demand(
    costs: Sequence[UnitCost], memories: Sequence[StepMemory], memory: ProgramMemory
) -> _Demand:
    return _Demand(
        pt=total(cost.pt for cost in costs),
        sfp=total(cost.sfp for cost in costs),
        ddr=memory.time,
        lx=total(cost.lx for cost in costs) + total(step.mixed_lx for step in memories),
        ring_hidden=total(cost.ring_hidden for cost in costs),
        ring_exposed=total(cost.ring_exposed for cost in costs),
        relayout=total(cost.relayout for cost in costs),
        restick_extra=total(step.restick_extra for step in memories),
        split_shape=total(cost.split_shape for cost in costs),
    )


def _step_demand(cost: UnitCost, memory: StepMemory) -> _Demand:
    return _Demand(
        pt=cost.pt,
        sfp=cost.sfp,
        ddr=memory.isolated_time,
        lx=cost.lx + memory.mixed_lx,
        ring_hidden=cost.ring_hidden,
        ring_exposed=cost.ring_exposed,
        relayout=cost.relayout,
        restick_extra=memory.restick_extra,
        split_shape=cost.split_shape,
    )


def _parallel_units(demand: _Demand) -> Fraction:
    busy = max(demand.pt, demand.sfp, demand.ddr, demand.lx, demand.ring_hidden)
    exposed = demand.ring_exposed + demand.relayout + demand.restick_extra + demand.split_shape
    return busy + exposed


# The last three are the pipelines of the public KTIR interpreter.
_OVERLAP: dict[str, Callable[[_Demand], Fraction]] = {
    "units": _parallel_units,
    "serial": lambda demand: demand.compute + demand.memory + demand.ring,
    "overlapped": lambda demand: max(demand.compute, demand.memory + demand.ring),
    "overlapped_3way": lambda demand: max(demand.compute, demand.memory, demand.ring),
}


def _fixed_costs(steps: Sequence[Step], constants: TimingConstants) -> Fraction:
    executed = [step.trips for step in steps if step.trips]
    iterations = sum(trips for trips in executed if trips > 1)
    return PS_PER_NS * (len(executed) * constants.STEP_NS + iterations * constants.LOOP_ITER_NS)


def _spans(
    steps: Sequence[Step],
    costs: Sequence[UnitCost],
    memories: Sequence[StepMemory],
    time_ps: int,
) -> tuple[StepSpan, ...]:
    """Return consecutive spans for a timeline, in proportion to the slowest unit of every step.

    Steps overlap in fact; the spans only add up to the time of the program.
    """
    demands = [_step_demand(*pair) for pair in zip(costs, memories, strict=True)]
    weights = [max(demand.by_unit.values()) for demand in demands]
    spans = []
    start = 0
    durations = apportion(time_ps, weights)
    for step, demand, duration in zip(steps, demands, durations, strict=True):
        busy = demand.unit_times()
        spans.append(StepSpan(step.name, step.op, step.cores, start, duration, busy))
        start += duration
    return tuple(spans)


# --- Utilisation ----------------------------------------------------------------------------------


def _utilisation(
    program: ProgramRecord,
    costs: Sequence[UnitCost],
    memory: ProgramMemory,
    spans: Sequence[StepSpan],
    card: CardDescription,
) -> Utilisation:
    constants, cores = card.timing, card.compute.cores
    time_ps = sum(span.duration_ps for span in spans)
    cycles = time_ps / cycle_ps(constants)
    peak, sustained = (bandwidth * time_ps for bandwidth in (constants.DDR_PEAK, constants.DDR_BW))
    moved = memory.read_bytes + memory.write_bytes
    ring_bytes_cycle = cores * card.ring.directions * constants.RING_BYTES_CYCLE
    lx_charged = _lx_bytes(program) if constants.LX_ACCESS == "charged" else 0
    return Utilisation(
        pt=_ratio(total(cost.fp16_macs for cost in costs), cores * constants.PT_MAC_FP16 * cycles),
        sfp=_ratio(total(c.sfp_lane_ops for c in costs), cores * constants.SFP_LANES_16 * cycles),
        ddr=_ratio(PS_PER_NS * moved, peak),
        ddr_read=_ratio(PS_PER_NS * memory.read_bytes, peak),
        ddr_write=_ratio(PS_PER_NS * memory.write_bytes, peak),
        ddr_sustained=_ratio(PS_PER_NS * moved, sustained),
        lx=_ratio(lx_charged, cores * constants.LX_BYTES_CYCLE * cycles),
        ring=_ratio(_ring_byte_hops(program), ring_bytes_cycle * cycles),
        core_active=_ratio(sum(span.duration_ps * span.cores for span in spans), cores * time_ps),
    )


def _core_utilisation(
    program: ProgramRecord, costs: Sequence[UnitCost], time_ps: int, constants: TimingConstants
) -> CoreUtilisation:
    cycles = time_ps / cycle_ps(constants)
    lx_bytes = sum(
        item.busiest_core_bytes * step.trips for step in program.steps for item in step.lx
    )
    lx_charged = lx_bytes if constants.LX_ACCESS == "charged" else 0
    macs = total(cost.busiest_core_fp16_macs for cost in costs)
    lane_ops = total(cost.busiest_core_lane_ops for cost in costs)
    return CoreUtilisation(
        pt=_ratio(macs, constants.PT_MAC_FP16 * cycles),
        sfp=_ratio(lane_ops, constants.SFP_LANES_16 * cycles),
        lx=_ratio(lx_charged, constants.LX_BYTES_CYCLE * cycles),
    )


def _ratio(done: Fraction | int, possible: Fraction | int) -> float:
    return float(Fraction(done) / possible) if possible else 0.0


def _lx_bytes(program: ProgramRecord) -> int:
    return sum(item.bytes * step.trips for step in program.steps for item in step.lx)


def _ring_byte_hops(program: ProgramRecord) -> int:
    return sum(item.byte_hops * step.trips for step in program.steps for item in _ring_items(step))


def _ring_items(step: Step) -> list[RingTransfer | Relayout]:
    return [*step.ring, *step.relayouts]

"""Cycles of units add up to those of the kernel, and stalls are on the right side."""

from fractions import Fraction

import pytest
import torch  # noqa: F401  # loads the libraries that _C needs
from hypothesis import given
from timing_programs import add, matmul, program, read, scratchpad, vector, write
from timing_strategies import programs

from torch_spyre.cards import load_card
from torch_spyre.kernel_counters.unit_cycles import UNITS, UnitCycles, unit_cycles
from torch_spyre.timing import ProgramRecord, RingTransfer, Step, estimate
from torch_spyre.timing.units import cycle_ps


def cycles_of(record):
    timing = estimate(record)
    return timing, unit_cycles(record, timing)


@given(record=programs(min_steps=1))
def test_the_parts_of_every_unit_add_up_to_the_cycles_of_the_kernel(record):
    timing, cycles = cycles_of(record)
    cycle = cycle_ps(load_card().timing)
    for unit, parts in cycles.items():
        counts = (parts.busy, parts.stalled_on_input, parts.stalled_on_output, parts.idle)
        assert min(counts) >= 0
        assert sum(counts) == parts.total == timing.cycles
        busy_ps = min(getattr(timing.busy, unit), timing.time_ps)
        assert abs(parts.busy - Fraction(busy_ps) / cycle) <= 2, unit
        if not busy_ps:
            assert parts == UnitCycles(0, 0, 0, timing.cycles)


@given(record=programs(min_steps=1))
def test_units_with_work_are_idle_during_fixed_costs_alone(record):
    timing, cycles = cycles_of(record)
    constants = load_card().timing
    executed = [step.trips for step in record.steps if step.trips]
    fixed_ns = len(executed) * constants.STEP_NS
    fixed_ns += sum(trips for trips in executed if trips > 1) * constants.LOOP_ITER_NS
    fixed = 1000 * fixed_ns / cycle_ps(constants)
    for unit in UNITS:
        if getattr(timing.busy, unit):
            # Both the times of the units and the cycles are rounded.
            assert abs(cycles[unit].idle - fixed) <= 2 + len(UNITS), unit


def test_an_addition_waits_for_two_reads_and_one_write():
    timing, cycles = cycles_of(add(4096, 4096))
    assert timing.bound_by == "ddr"
    sfp = cycles["sfp"]
    waits = sfp.stalled_on_input + sfp.stalled_on_output
    assert sfp.stalled_on_input / waits == pytest.approx(2 / 3, abs=0.01)
    assert cycles["ddr"].stalled_on_input == cycles["ddr"].stalled_on_output == 0
    assert cycles["pt"].idle == timing.cycles


def test_memory_waits_for_a_bound_matrix_unit_that_takes_its_reads_late():
    timing, cycles = cycles_of(matmul(2048, 2048, 2048))
    assert timing.bound_by == "pt"
    ddr = cycles["ddr"]
    # Two operands are read before the matmul, and one result of the same size is written after it.
    share = ddr.stalled_on_output / (ddr.stalled_on_input + ddr.stalled_on_output)
    assert share == pytest.approx(2 / 3, abs=0.05)


def test_all_wait_for_a_ring_transfer_that_does_not_overlap():
    amount = 1 << 22
    steps = (
        Step(name="load [0]", op="load", cores=32, ddr=(read(amount),), lx=(scratchpad(amount),)),
        Step(name="chain [1]", op="exp", cores=32, sfp=(vector("simple", amount),)),
        Step(
            name="deliver [2]",
            op="reduce",
            cores=32,
            ring=(RingTransfer(busiest_link_bytes=amount, hops=31, byte_hops=31 * amount),),
        ),
        Step(name="store [3]", op="store", cores=32, ddr=(write(amount),)),
    )
    timing, cycles = cycles_of(program(*steps))
    exposed = timing.ring_exposed_ps / cycle_ps(load_card().timing)
    assert cycles["ring"].busy == pytest.approx(float(exposed), abs=2)
    # What the vector unit produced waits for the ring; the reads waited for everything after them.
    assert cycles["sfp"].stalled_on_output >= exposed - 2
    assert cycles["ddr"].stalled_on_input > 0 and cycles["ddr"].stalled_on_output > 0


def test_pipelines_that_overlap_less_wait_for_all_other_units():
    record = add(1024, 1024)
    timing = estimate(record)
    serial = unit_cycles(record, timing, is_parallel=False)
    assert all(parts.total == timing.cycles for parts in serial.values())


def test_a_core_with_less_work_is_idle_meanwhile():
    busiest = UnitCycles(100, 30, 20, 10)
    assert busiest.with_busy(60) == UnitCycles(60, 30, 20, 50)
    assert busiest.with_busy(0) == UnitCycles(0, 0, 0, 160)
    assert busiest.with_busy(100) == busiest


def test_a_program_without_steps_has_no_cycles():
    timing, cycles = cycles_of(ProgramRecord(name="empty", steps=()))
    assert timing.cycles == 0
    assert set(cycles.values()) == {UnitCycles(0, 0, 0, 0)}

"""Tensors in a scratchpad: against an execution that follows every byte, and by hand."""

import pytest
from hypothesis import given
from scratchpad_programs import BODIES, SLOT, SLOTS, copy_program

from torch_spyre.scratchpad import figures, occupancy
from torch_spyre.scratchpad.accesses import accesses_of, constant_registers
from torch_spyre.scratchpad.figures import Allocation
from torch_spyre.scratchpad.liveness import liveness


def bytes_of(ranges):
    return {byte for used in ranges for byte in range(used.begin, used.end)}


def executed_occupancy(program):
    """Return for each copy the bytes that are occupied in any of its executions.

    A byte is occupied from its write to the last read of the written value; what a copy reads and
    writes is occupied while it is executed.
    """
    content = program.content()
    constants = constant_registers(content)
    accesses = [accesses_of(instruction, constants) for instruction in content.code]
    occupied = {index: set() for index in program.trace}
    for byte in range(SLOTS * SLOT):
        since = None  # the position of the write of the present value
        for at, index in enumerate(program.trace):
            is_read = byte in bytes_of(accesses[index].reads)
            is_written = byte in bytes_of(accesses[index].writes)
            if is_read or is_written:
                occupied[index].add(byte)
            if is_read and since is not None:
                for position in range(since, at + 1):
                    occupied[program.trace[position]].add(byte)
            if is_written:
                since = at
    return occupied


@given(body=BODIES)
def test_occupied_bytes_are_those_of_values_that_an_execution_reads_later(body):
    program = copy_program(body)
    live = liveness(program.content())
    for index, expected in executed_occupancy(program).items():
        ranges = live.atoms.ranges(live.during[index])
        actual = {byte for begin, end in ranges for byte in range(begin, end)}
        assert actual == expected, index


@given(body=BODIES)
def test_tensors_occupy_all_bytes_whose_values_are_read_later(body):
    program = copy_program(body)
    result = occupancy(program.content())
    expected = executed_occupancy(program)
    assert list(result.positions) == sorted(expected)
    for index, ranges in zip(result.positions, result.nodes, strict=True):
        actual = {byte for begin, end in ranges for byte in range(begin, end)}
        assert expected[index] <= actual, index


@given(body=BODIES)
def test_instructions_that_a_core_does_not_execute_occupy_nothing(body):
    program = copy_program(body)
    executed = {index: program.trace.count(index) for index in sorted(set(program.trace))[::2]}
    result = occupancy(program.content(), executed)
    assert list(result.positions) == list(executed)
    assert {tensor.writer for tensor in result.tensors} <= set(executed)


def test_a_tensor_is_live_from_its_write_to_its_last_read():
    a, b, c = (0, 1), (1, 2), (2, 3)
    program = copy_program([(a, b), (a, c), (b, a), (a, a), (c, b)])
    tensors = {
        tensor.writer: (tensor.begin, tensor.first, tensor.last)
        for tensor in occupancy(program.content()).tensors
    }
    assert tensors == {0: (16, 0, 3), 1: (32, 1, 5), 2: (0, 2, 4), 3: (0, 3, 4), 4: (16, 4, 5)}


def test_a_value_that_the_next_iteration_reads_is_live_in_the_whole_loop():
    carried, other = (0, 1), (1, 2)
    program = copy_program([(other, carried), [(other, other), (carried, carried)]])
    assert [ranges[0] for ranges in occupancy(program.content()).nodes] == [
        (0, 32), (0, 32), (0, 32),
    ]  # fmt: skip


def test_the_published_example_has_its_figures():
    # Peak 75 %, average (25 + 75 + 50) / 3 %: section 3.2 of the profiling fact sheet.
    small, large = Allocation(0, 524288), Allocation(524288, 524288 + 1048576)
    result = figures([[small], [small, large], [large]], [small, large], capacity=2097152)
    assert result.peak_bytes == 1572864
    assert (result.peak, result.average) == (0.75, 0.5)
    # Of 3 MiB that are free at the nodes together, the half MiB below the large tensor is outside
    # of the largest free range.
    assert result.fragmentation == pytest.approx(524288 / (1572864 + 524288 + 1048576))
    assert result.reuse_rate == 0


def test_tensors_at_one_address_in_turn_are_reuse():
    first, second = Allocation(0, 1024), Allocation(0, 512)
    result = figures([[first], [second]], [first, second], capacity=4096)
    assert result.reuse_rate == pytest.approx(512 / 1536)
    assert (result.peak, result.average, result.fragmentation) == (0.25, 0.1875, 0)


def test_a_program_without_tensors_has_zeros():
    result = occupancy(copy_program([[((0, 1), (1, 2))]]).content(), executions={})
    assert (result.positions, result.high_water, result.peak_position) == ((), 0, 0)
    assert result.figures(1024).peak == 0

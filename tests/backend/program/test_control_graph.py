"""Successors of instructions, and those that a core takes."""

from program_builder import ProgramBuilder

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.control_graph import successors, taken_successors
from torch_spyre.backend.program.instructions import ElementType


def counted(builder):
    """Append an instruction that the recorder counts; return its index."""
    tile = builder.tensor(ElementType.F16, 8)
    return builder.emit(ins.Literal, tile, (0,) * 8)


def branch_with_alternative():
    """Return a program with two bodies of a branch, between two instructions."""
    builder = ProgramBuilder()
    condition = builder.register()
    before = counted(builder)
    builder.emit(ins.Branch, condition, 4)
    body = counted(builder)
    builder.emit(ins.Jump, 5)
    alternative = counted(builder)
    after = counted(builder)
    return builder.content(), (before, body, alternative, after)


def edges(content, executions=None):
    if executions is None:
        return successors(content, {})
    return taken_successors(content, {}, executions)


def test_a_branch_continues_or_jumps():
    content, _ = branch_with_alternative()
    assert edges(content) == [(1,), (2, 4), (3,), (5,), (5,), (6,)]


def test_a_core_takes_the_body_that_it_executes():
    content, (before, body, alternative, after) = branch_with_alternative()
    assert edges(content, {before: 1, body: 1, after: 1})[1] == (2,)
    assert edges(content, {before: 1, alternative: 1, after: 1})[1] == (4,)
    # Both are counted if data decides.
    assert edges(content, {before: 1, body: 1, alternative: 1, after: 1})[1] == (2, 4)


def loop_with_branch(num_bodies):
    builder = ProgramBuilder()
    zero, four, one = builder.all_constants([0, 4, 1])
    begin = builder.emit(ins.LoopBegin, builder.register(), zero, four, one, 0)
    counted(builder)
    builder.emit(ins.Branch, builder.register(), 4)
    counted(builder)
    builder.end_loop(begin)
    content = builder.content()
    constants = {constant.destination: constant.bits for constant in content.constants}
    return taken_successors(content, constants, {1: 4, 3: num_bodies})


def test_a_branch_in_a_loop_may_do_both():
    assert loop_with_branch(4)[2] == (3,)
    assert loop_with_branch(0)[2] == (4,)
    assert loop_with_branch(3)[2] == (3, 4)
    assert loop_with_branch(3)[0] == (1,)  # the loop has iterations
    assert loop_with_branch(3)[4] == (1, 5)


def test_loops_without_constant_bounds_may_be_skipped():
    builder = ProgramBuilder()
    register = builder.register()
    begin = builder.emit(ins.LoopBegin, builder.register(), register, register, register, 0)
    counted(builder)
    builder.end_loop(begin)
    assert successors(builder.content(), {})[0] == (1, 3)


def test_loops_of_no_and_of_one_iteration_have_one_successor():
    for trips, of_begin, of_end in ((0, (3,), (1, 3)), (1, (1,), (3,)), (2, (1,), (1, 3))):
        builder = ProgramBuilder()
        lower, upper, step = builder.register(), builder.register(), builder.register()
        begin = builder.emit(ins.LoopBegin, builder.register(), lower, upper, step, 0)
        counted(builder)
        builder.end_loop(begin)
        graph = successors(builder.content(), {lower: 0, upper: trips, step: 1})
        assert (graph[0], graph[2]) == (of_begin, of_end), trips

"""Repeated launches of a program do not affect each other."""

import random

import pytest
import torch
from program_builder import ProgramBuilder, run

from torch_spyre import _C
from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, ElementType

I32, I64 = ElementType.I32, ElementType.I64
CORES, COLUMNS = 32, 16


def scaled_rows(op: str = "muli") -> ProgramBuilder:
    """Core i computes `target[i, :] = op(source[i, :], scalar)`, as often as the scalar `count`."""
    build = ProgramBuilder((CORES,), "scaled")
    source, target = build.argument(I32), build.argument(I32)
    scalar, count = build.argument(I32, is_array=False), build.argument(I64, is_array=False)
    tile = build.tensor(I32, 1, COLUMNS)
    views = [build.view(array, I32, [CORES, COLUMNS]) for array in (source, target)]
    bounds = [build.constant(0), count, build.constant(1)]
    begin = build.emit(ins.LoopBegin, build.register(), *bounds, 0)
    anchor = (CORE_REGISTER, build.constant(0))
    build.transfer(tile, [1, COLUMNS], anchor, views[0], store=False)
    given = (
        ins.Input(ins.InputKind.OPERAND, tile, I32),
        ins.Input(ins.InputKind.SCALAR, tile, I32, scalar),
    )
    step = ins.ChainStep(-1, op, I32, I32, (0, 1))
    extents = build.all_constants([1, COLUMNS])
    build.emit(ins.Chain, extents, given, (step,), (), (ins.ChainOutput(2, tile),))
    build.transfer(tile, [1, COLUMNS], anchor, views[1], store=True)
    end = build.emit(ins.LoopEnd, begin)
    loop = build.code[begin]
    assert isinstance(loop, ins.LoopBegin)
    build.code[begin] = ins.LoopBegin(begin, loop.variable, *bounds, end)
    return build


def numbers(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-99, 99, (CORES * COLUMNS,), dtype=torch.int32, generator=generator)


def empty() -> torch.Tensor:
    return torch.zeros(CORES * COLUMNS, dtype=torch.int32, device="spyre")


def test_every_launch_sees_its_own_arrays_and_scalars() -> None:
    program = scaled_rows().load()
    results = []
    for seed in range(20):
        source, target = numbers(seed), empty()
        run(program, source.to("spyre"), target, scalars=(seed, 1), wait=False)
        results.append((target, source * seed))
    for target, expected in results:
        assert torch.equal(target.cpu(), expected)


def test_launch_uses_the_sizes_of_its_arrays() -> None:
    program = scaled_rows().load()
    source = numbers(0)
    for rows in (CORES, 3, CORES, 1):
        target = empty()
        sizes = [rows * COLUMNS * 4, CORES * COLUMNS * 4]
        run(program, source.to("spyre"), target, scalars=(2, 1), array_bytes=sizes)
        expected = torch.zeros_like(source)
        expected[: rows * COLUMNS] = source[: rows * COLUMNS] * 2
        assert torch.equal(target.cpu(), expected)


def test_alternating_and_short_lived_programs() -> None:
    chooser = random.Random(0)
    functions = {"muli": torch.mul, "addi": torch.add, "subi": torch.sub}
    kept = {op: scaled_rows(op=op).load() for op in functions}
    for turn in range(60):
        op = chooser.choice(list(functions))
        fresh = chooser.random() < 0.5
        program = scaled_rows(op=op).load() if fresh else kept[op]
        source, target = numbers(turn), empty()
        run(program, source.to("spyre"), target, scalars=(turn + 1, 1))
        assert torch.equal(target.cpu(), functions[op](source, turn + 1))


@pytest.mark.parametrize("counts", [(1, 400, 1, 1, 400, 400, 1), (400, 1, 400)])
def test_short_and_long_launches_in_turns(counts: tuple[int, ...]) -> None:
    program = scaled_rows().load()
    for seed, count in enumerate(counts):
        source, target = numbers(seed), empty()
        run(program, source.to("spyre"), target, scalars=(3, count))
        assert torch.equal(target.cpu(), source * 3)


def test_fault_injection_affects_only_its_launch() -> None:
    program = scaled_rows().load()
    source = numbers(0)
    for inject in ("", "flip:muli", "", "flip:muli", ""):
        target = empty()
        run(program, source.to("spyre"), target, scalars=(3, 1), inject=inject)
        assert torch.equal(target.cpu(), source * 3) == (inject == "")


def test_after_a_failure_the_next_launch_works() -> None:
    build = ProgramBuilder((CORES,), "failing")
    target, element = build.argument(I32), build.argument(I64, is_array=False)
    tile = build.tensor(I32, 1)
    view = build.view(target, I32, [CORES])
    # Beyond the begin for the cores before `element`.
    offset = build.scalar("subi", I64, CORE_REGISTER, element)
    build.transfer(tile, [1], [offset], view, store=True)
    program = build.load()
    for first_good in (0, 3, 0, 31, 0):
        memory = torch.ones(CORES, dtype=torch.int32, device="spyre")
        if first_good == 0:
            run(program, memory, scalars=(0,))
            assert memory.cpu().sum() == 0
            continue
        with pytest.raises(RuntimeError, match="kernel failing, core 0, .* before the begin"):
            run(program, memory, scalars=(first_good,))


def test_several_streams_run_the_same_program_at_once() -> None:
    program = scaled_rows().load()
    streams = [torch.spyre.Stream() for _ in range(4)]
    results = []
    for turn in range(40):
        source, target = numbers(turn), empty()
        card = source.to("spyre")
        torch.spyre.synchronize()
        with torch.spyre.stream(streams[turn % 4]):
            run(program, card, target, scalars=(turn, 1 + turn % 3), wait=False)
        results.append((target, source * turn))
    torch.spyre.synchronize()
    for target, expected in results:
        assert torch.equal(target.cpu(), expected)
    assert _C.counters()["launches"] >= 40

"""Cores that publish tiles for each other, on the emulated card."""

from dataclasses import replace

import pytest
import torch
from program_builder import ProgramBuilder, run

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, NO_REGISTER, ElementType

F32, I64 = ElementType.F32, ElementType.I64


def publish(build: ProgramBuilder, *tiles: ins.Operand, channel: int = 0) -> None:
    published = tuple(ins.PublishedTile(tile.address, tile.bytes) for tile in tiles)
    build.emit(ins.Publish, channel, published)


def receive(
    build: ProgramBuilder,
    producer: int,
    tile: ins.Operand,
    count: int,
    role: int = 0,
    offset: int = NO_REGISTER,
    stride: int = 1,
    channel: int = 0,
) -> None:
    extents = build.all_constants([count])
    build.emit(ins.Receive, channel, role, producer, offset, (stride,), tile, extents)


def delivered(build: ProgramBuilder, channel: int = 0) -> None:
    cores = build.grid[0]
    build.emit(ins.Delivered, channel, ins.DeliveryKind.REDUCE, cores, 4)


def all_reduce(cores: int, rounds: int) -> ProgramBuilder:
    """Each core sums its element of array 0 over all cores, `rounds` times, into array 1."""
    build = ProgramBuilder((cores,), "all_reduce")
    build.channels = 1
    source, target = build.argument(F32), build.argument(F32)
    own, taken, total = (build.tensor(F32, 1) for _ in range(3))
    build.transfer(own, [1], [CORE_REGISTER], build.view(source, F32, [cores]), store=False)
    zero, one = build.constant(0), build.constant(1)
    bounds = (zero, build.constant(rounds), one)
    outer = build.emit(ins.LoopBegin, build.register(), *bounds, 0)
    publish(build, own)
    producer = build.register()
    inner = build.emit(ins.LoopBegin, producer, zero, build.constant(cores), one, 0)
    receive(build, producer, taken, 1)
    build.elementwise("addf", [1], total, total, taken)
    build.end_loop(inner)
    delivered(build)
    build.end_loop(outer)
    build.transfer(total, [1], [CORE_REGISTER], build.view(target, F32, [cores]), store=True)
    return build


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("cores", "rounds"), [(4, 1), (32, 5), (2, 300)])
def test_cores_sum_all_published_tiles(cores: int, rounds: int, ordered: bool) -> None:
    values, result = torch.arange(1.0, cores + 1), torch.zeros(cores).to("spyre")
    run(all_reduce(cores, rounds), values.to("spyre"), result, ordered=ordered)
    assert result.cpu().tolist() == [rounds * values.sum().item()] * cores


def test_consumer_reads_a_slice_of_one_role() -> None:
    """Core 0 reads every second element of the second role of core 1."""
    build = ProgramBuilder((2,))
    build.channels = 1
    source, target = build.argument(F32), build.argument(F32)
    first, second, taken = (build.tensor(F32, 8) for _ in range(3))
    zero, one = build.constant(0), build.constant(1)
    view = build.view(source, F32, [8])
    build.transfer(second, [8], [zero], view, store=False)
    publish(build, first, second)
    receive(build, one, taken, 4, role=1, offset=one, stride=2)
    delivered(build)
    build.transfer(taken, [4], [zero], build.view(target, F32, [4]), store=True)
    result = torch.zeros(4).to("spyre")
    run(build, torch.arange(8.0).to("spyre"), result)
    assert result.cpu().tolist() == [1, 3, 5, 7]


def test_reading_more_than_was_published_raises() -> None:
    build = ProgramBuilder((2,))
    build.channels = 1
    own, taken = build.tensor(F32, 4), build.tensor(F32, 8)
    publish(build, own)
    receive(build, build.constant(1), taken, 5)
    with pytest.raises(RuntimeError, match="beyond the end of its published tile of 16 bytes"):
        run(build)


def test_missing_producer_raises() -> None:
    build = ProgramBuilder((2,))
    build.channels = 1
    publish(build, build.tensor(F32, 4))
    receive(build, build.constant(2), build.tensor(F32, 4), 4)
    with pytest.raises(RuntimeError, match="no core 2 to receive from: the grid has 2"):
        run(build)


def ring_without_publication(cores: int) -> ProgramBuilder:
    build = ProgramBuilder((cores,), "silent")
    build.channels = 1
    one, n = build.constant(1), build.constant(cores)
    neighbour = build.scalar("addi", I64, CORE_REGISTER, one)
    neighbour = build.scalar("remui", I64, neighbour, n)
    receive(build, neighbour, build.tensor(F32, 1), 1)
    return build


def test_deadlock_names_who_waits_for_whom() -> None:
    with pytest.raises(RuntimeError) as error:
        run(ring_without_publication(3))
    assert str(error.value).startswith(
        "Deadlock detected: core 0 waiting on recv from core 1; core 1 waiting on recv from "
        "core 2; core 2 waiting on recv from core 0 (kernel silent)"
    )
    test_cores_sum_all_published_tiles(4, 1, False)


def test_error_of_a_core_wins_over_those_that_wait_for_it() -> None:
    """Core 2 fails before it publishes."""
    build = ProgramBuilder((4,), "half")
    build.channels = 1
    array = build.argument(F32)
    tile = build.tensor(F32, 1)
    two = build.constant(2)
    is_two = build.scalar("cmpi_eq", I64, CORE_REGISTER, two, result=ElementType.I1)
    widened = build.scalar("extui", ElementType.I1, is_two, result=I64)
    anchor = build.scalar("subi", I64, build.constant(0), widened)
    build.transfer(tile, [1], [anchor], build.view(array, F32, [4]), store=False)
    publish(build, tile)
    receive(build, two, tile, 1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="kernel half, core 2, instruction 3"):
            run(build, torch.zeros(4).to("spyre"))


def producer_ahead(rounds: int, tile_elements: int) -> ProgramBuilder:
    """Core 0 publishes all rounds without waiting; core 1 reads them."""
    build = ProgramBuilder((2,), "ahead")
    build.channels = 1
    target = build.argument(F32)
    own, taken, total = (build.tensor(F32, tile_elements) for _ in range(3))
    zero, one = build.constant(0), build.constant(1)
    splat = ins.Input(ins.InputKind.SCALAR, own, F32, build.constant(0x3F800000))
    step = ins.ChainStep(-1, "addf", F32, F32, (0, 0))
    output = (ins.ChainOutput(0, own),)
    extents = build.all_constants([tile_elements])
    build.emit(ins.Chain, extents, (splat,), (step,), (), output)
    loop = build.emit(ins.LoopBegin, build.register(), zero, build.constant(rounds), one, 0)
    is_zero = build.scalar("cmpi_eq", I64, CORE_REGISTER, zero, result=ElementType.I1)
    build.emit(ins.Branch, is_zero, loop + 5)
    publish(build, own)
    jump = build.emit(ins.Jump, 0)
    receive(build, zero, taken, tile_elements)
    build.elementwise("addf", [tile_elements], total, total, taken)
    delivered_at = len(build.code)
    delivered(build)
    build.code[jump] = ins.Jump(jump, delivered_at)
    build.end_loop(loop)
    view = build.view(target, F32, [2, tile_elements])
    place = replace(total, strides=(tile_elements, 1))
    build.transfer(place, [1, tile_elements], [CORE_REGISTER, zero], view, store=True)
    return build


@pytest.mark.parametrize(("rounds", "elements"), [(1000, 1), (200, 1 << 16)])
def test_core_may_run_ahead(rounds: int, elements: int) -> None:
    """Publish far more than the mailboxes hold: 200 rounds of 256 KiB."""
    result = torch.zeros(2 * elements).to("spyre")
    run(producer_ahead(rounds, elements), result)
    assert (result.cpu()[elements:] == rounds).all()


def test_publishing_without_takers_never_blocks() -> None:
    """All cores finish although no core frees its mailbox."""
    build = ProgramBuilder((4,))
    build.channels = 1
    tile = build.tensor(F32, 1)
    bounds = build.all_constants([0, 500, 1])
    loop = build.emit(ins.LoopBegin, build.register(), *bounds, 0)
    publish(build, tile)
    build.end_loop(loop)
    run(build)


def test_results_do_not_depend_on_when_cores_run() -> None:
    values = torch.randn(32)
    program = all_reduce(32, 7).load()
    results = []
    for _ in range(10):
        result = torch.zeros(32).to("spyre")
        run(program, values.to("spyre"), result)
        results.append(result.cpu())
    assert all(torch.equal(result, results[0]) for result in results)

"""The high-water mark of a scratchpad: the last byte that the executed instructions access."""

from dataclasses import replace

import pytest
import torch
from program_builder import ProgramBuilder, run

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import ElementType

F16, F32 = ElementType.F16, ElementType.F32


@pytest.fixture
def builder():
    return ProgramBuilder(grid=(2,))


def mark_of(builder):
    loaded = builder.load()
    assert loaded.scratchpad_high_water == 0
    run(loaded)
    return loaded.scratchpad_high_water


def fill(builder, tile, count):
    """Append an instruction that writes the first elements of a tile."""
    value = ins.Input(ins.InputKind.INDEX, tile, ElementType.I64)
    step = ins.ChainStep(-1, "sitofp", ElementType.I64, tile.type, (0,))
    extents = (builder.constant(count),)
    builder.emit(ins.Chain, extents, (value,), (step,), (), (ins.ChainOutput(1, tile),))


def test_only_accessed_elements_count(builder):
    tile = builder.tensor(F16, 1000)
    fill(builder, tile, 300)
    assert mark_of(builder) == 600


def test_strides_and_offsets_count(builder):
    tile = builder.tensor(F16, 1000)
    offset = builder.constant(10)
    fill(builder, replace(tile, strides=(3,), offset=offset), 100)
    assert mark_of(builder) == 2 * (10 + 99 * 3 + 1)


def test_the_highest_core_counts(builder):
    tile = builder.tensor(F32, 1000)
    offset = builder.scalar("muli", ElementType.I64, ins.CORE_REGISTER, builder.constant(500))
    fill(builder, replace(tile, offset=offset), 7)
    assert mark_of(builder) == 4 * 507


def test_sources_and_results_of_reductions_and_copies_count(builder):
    source, result, copy = (builder.tensor(F16, count) for count in (256, 256, 256))
    fill(builder, source, 256)
    value = ins.Input(ins.InputKind.OPERAND, replace(source, strides=(16, 1)), F16)
    output = replace(result, strides=(1, 0))
    extents = builder.all_constants([4, 16])
    builder.emit(ins.Reduce, extents, (value,), (), (), (1,), (0,), "addf", (), (), (), (output,))
    assert mark_of(builder) == result.address + 2 * 4
    builder.emit(ins.Copy, builder.all_constants([9]), result, copy)
    assert mark_of(builder) == copy.address + 2 * 9


def test_matrices_count(builder):
    a, b, output = (builder.tensor(F16, 1, 32, 32) for _ in range(3))
    for tile in (a, b):
        fill(builder, replace(tile, strides=(1,)), 1024)
    sizes = builder.all_constants([1, 8, 16, 32])
    builder.emit(ins.Matmul, *sizes, a, b, False, output, output)
    assert mark_of(builder) == output.address + 2 * (7 * 32 + 16)


def test_empty_spaces_and_programs_that_are_not_counted_have_no_mark(builder):
    tile = builder.tensor(F16, 64)
    fill(builder, tile, 0)
    assert mark_of(builder) == 0


def test_transfers_count_their_tiles(builder):
    array = builder.argument(F16)
    tile = builder.tensor(F16, 512)
    view = builder.view(array, F16, [128])
    builder.transfer(tile, [100], [builder.constant(0)], view, store=False)
    loaded = builder.load()
    run(loaded, torch.zeros(128).half().to("spyre"))
    assert loaded.scratchpad_high_water == 200

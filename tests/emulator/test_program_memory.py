"""Hand-written programs access arrays, scratchpads and fixed memory."""

import pytest
import torch
from program_builder import ProgramBuilder, run
from program_kernels import copy, on_card, zeros

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, ElementType, Space

pytestmark = pytest.mark.usefixtures("nothing_pending")
F32, I32, I64, I1 = ElementType.F32, ElementType.I32, ElementType.I64, ElementType.I1


def test_accesses_beyond_an_array_read_zero_and_write_nothing() -> None:
    source, target = torch.arange(1.0, 65.0), torch.full((64,), -1.0).to("spyre")
    run(copy(64), source.to("spyre"), target, array_bytes=[40 * 4, 50 * 4])
    expected = torch.cat([source[:40], torch.zeros(10), torch.full((14,), -1.0)])
    assert torch.equal(target.cpu(), expected)


@pytest.mark.parametrize("strides", [[1, 8], [-8, 1], [16, -1], [0, 1]])
def test_strided_views_of_any_direction(strides: list[int]) -> None:
    """Return an 8 x 8 tile whose first element puts all other elements at 64 or above."""
    build = ProgramBuilder()
    source, target = build.argument(F32), build.argument(F32)
    first = 64 + 7 * sum(-min(stride, 0) for stride in strides)
    base = build.scalar("addi", I64, source, build.constant(first))
    tile = build.tensor(F32, 8, 8)
    zero = build.constant(0)
    view = build.view(base, F32, [8, 8], strides)
    build.transfer(tile, [8, 8], [zero, zero], view, store=False)
    build.transfer(tile, [8, 8], [zero, zero], build.view(target, F32, [8, 8]), store=True)
    values = torch.arange(1.0, 161.0)
    result = zeros(64)
    run(build, values.to("spyre"), result)
    places = [first + i * strides[0] + j * strides[1] for i in range(8) for j in range(8)]
    expected = [values[place].item() if place < 160 else 0.0 for place in places]
    assert result.cpu().tolist() == expected


def test_access_before_an_array_raises() -> None:
    build = ProgramBuilder()
    source = build.argument(F32)
    tile = build.tensor(F32, 4)
    view = build.view(source, F32, [4])
    build.transfer(tile, [4], [build.constant(-1)], view, store=False)
    with pytest.raises(RuntimeError, match="before the begin of its memory of 256 bytes"):
        run(build, zeros(64))


def test_access_to_unallocated_memory_raises() -> None:
    build = ProgramBuilder()
    tile = build.tensor(F32, 4)
    view = build.view(build.constant(123456), F32, [4])
    build.transfer(tile, [4], [build.constant(0)], view, store=True)
    with pytest.raises(RuntimeError, match=f"no memory at byte address {4 * 123456}"):
        run(build)


def partitioned(lower: tuple[int, ...], sizes: tuple[int, ...], anchor: int) -> ProgramBuilder:
    """Copy ten elements of a view, partitioned over all arrays but the last, to the last array."""
    build = ProgramBuilder()
    views = [
        build.view(build.argument(F32), F32, [size], lower=[low])
        for low, size in zip(lower, sizes, strict=True)
    ]
    target = build.argument(F32)
    tile = build.tensor(F32, 10)
    build.transfer(tile, [10], [build.constant(anchor)], *views, store=False)
    build.transfer(tile, [10], [build.constant(0)], build.view(target, F32, [10]), store=True)
    return build


def test_tile_reads_all_partitions_and_the_last_wins() -> None:
    result = zeros(10)
    arrays = [torch.full((64,), float(i + 1)).to("spyre") for i in range(3)]
    run(partitioned((0, 8, 6), (8, 20, 4), 4), *arrays, result)
    assert result.cpu().tolist() == [1, 1, 3, 3, 3, 3, 2, 2, 2, 2]


def test_stores_to_all_partitions() -> None:
    build = ProgramBuilder()
    source = build.argument(F32)
    views = [
        build.view(build.argument(F32), F32, [4], lower=[low], strides=[stride])
        for low, stride in ((0, 1), (4, 2))
    ]
    tile = build.tensor(F32, 8)
    zero = build.constant(0)
    build.transfer(tile, [8], [zero], build.view(source, F32, [8]), store=False)
    build.transfer(tile, [8], [zero], *views, store=True)
    first, second = zeros(4), zeros(8)
    run(build, torch.arange(8.0).to("spyre"), first, second)
    assert first.cpu().tolist() == [0, 1, 2, 3]
    assert second.cpu().tolist() == [4, 0, 5, 0, 6, 0, 7, 0]


def test_tile_outside_all_partitions_raises() -> None:
    arrays = [zeros(64) for _ in range(3)]
    with pytest.raises(RuntimeError, match=r"no partition .* holds the coordinates \(13\)"):
        run(partitioned((0, 14), (13, 20), 5), *arrays)


def test_transfers_lists_of_points() -> None:
    build = ProgramBuilder()
    source, target = build.argument(F32), build.argument(F32)
    tile = build.tensor(F32, 3)
    view = build.view(source, F32, [8, 8])
    anchor = build.all_constants([1, 2])
    build.transfer(tile, [3], anchor, view, store=False, points=(0, 0, 1, 1, 2, -2))
    view = build.view(target, F32, [64])
    build.transfer(tile, [3], [build.constant(0)], view, store=True, points=(5, 0, 2))
    result = zeros(64)
    run(build, torch.arange(64.0).to("spyre"), result)
    assert result.cpu()[[5, 0, 2]].tolist() == [10, 19, 24]
    assert result.cpu().count_nonzero() == 3


def gather(
    rows: int, store: bool = False, points: tuple[int, ...] = (), indices_seen: int = 4
) -> ProgramBuilder:
    """Rows of array 0 (8 wide, `rows` long) that array 1 lists, to array 2; or the reverse."""
    build = ProgramBuilder()
    table, indices, other = build.argument(F32), build.argument(I32), build.argument(F32)
    row = ins.Subscript(
        True, ((ins.Term(ins.TermKind.VARIABLE, 0),),), build.view(indices, I32, [indices_seen])
    )
    table_view = build.view(table, F32, [rows, 8])
    column = ins.Subscript(False, ((ins.Term(ins.TermKind.VARIABLE, 1),),), table_view)
    shape = [len(points) // 2] if points else [4, 8]
    tile = build.tensor(F32, *shape)
    zeros = build.all_constants([0] * len(shape))
    plain = build.view(other, F32, shape)
    extents = build.all_constants(shape)
    if store:
        build.transfer(tile, shape, zeros, plain, store=False)
    build.emit(ins.IndirectTransfer, store, tile, extents, table_view, (row, column), points)
    if not store:
        build.transfer(tile, shape, zeros, plain, store=True)
    return build


def test_gathers_rows() -> None:
    table, result = torch.arange(256.0), zeros(32)
    run(gather(32), table.to("spyre"), on_card(3, 30, 0, 3, dtype=torch.int32), result)
    assert torch.equal(result.cpu().view(4, 8), table.view(32, 8)[[3, 30, 0, 3]])


def test_scatters_rows_and_the_last_of_equal_ones_wins() -> None:
    rows, table = torch.arange(1.0, 33.0), zeros(256)
    build = gather(32, store=True)
    run(build, table, on_card(3, 30, 0, 3, dtype=torch.int32), rows.to("spyre"))
    expected = torch.zeros(32, 8)
    expected[30], expected[0], expected[3] = rows.view(4, 8)[[1, 2, 3]]
    assert torch.equal(table.cpu().view(32, 8), expected)


def test_gathers_a_list_of_points() -> None:
    table, result = torch.arange(256.0), zeros(3)
    indices = on_card(3, 30, 0, 9, dtype=torch.int32)
    run(gather(32, points=(1, 4, 3, 0, 0, 7)), table.to("spyre"), indices, result)
    assert result.cpu().tolist() == [30 * 8 + 4, 9 * 8, 3 * 8 + 7]


@pytest.mark.parametrize("bad", [-1, 32, 2**31 - 1])
@pytest.mark.parametrize("store", [False, True])
def test_bad_index_is_an_index_error(bad: int, store: bool) -> None:
    arrays = (zeros(256), on_card(3, bad, 0, 3, dtype=torch.int32), zeros(32))
    message = rf"index {bad} is out of range in dimension 0 of size 32"
    with pytest.raises(IndexError, match=message):
        run(gather(32, store), *arrays)
    # The card stays usable.
    test_gathers_rows()


def test_index_beyond_its_view_is_an_index_error() -> None:
    build = gather(32, indices_seen=3)
    with pytest.raises(IndexError, match="the position of an index 3 is out of range"):
        run(build, zeros(256), on_card(3, 1, 0, 3, dtype=torch.int32), zeros(32))


def test_indirect_coordinates_are_computed() -> None:
    """Element t of the tile is the table's row t floordiv 4, column 7 - t mod 4."""
    build = ProgramBuilder()
    source, target = build.argument(F32), build.argument(F32)
    kinds = ins.TermKind
    view = build.view(source, F32, [4, 8])

    def subscript(*terms: ins.Term) -> ins.Subscript:
        return ins.Subscript(False, (terms,), view)

    t, four = ins.Term(kinds.VARIABLE, 0), ins.Term(kinds.CONSTANT, 4)
    row = subscript(t, four, ins.Term(kinds.FLOOR_DIVIDE))
    seven = ins.Term(kinds.REGISTER, build.constant(7))
    minus = (ins.Term(kinds.CONSTANT, -1), ins.Term(kinds.MULTIPLY))
    column = subscript(seven, t, four, ins.Term(kinds.MODULO), *minus, ins.Term(kinds.ADD))
    tile = build.tensor(F32, 16)
    extents = build.all_constants([16])
    build.emit(ins.IndirectTransfer, False, tile, extents, view, (row, column), ())
    build.transfer(tile, [16], [build.constant(0)], build.view(target, F32, [16]), store=True)
    result = zeros(16)
    run(build, torch.arange(32.0).to("spyre"), result)
    assert result.cpu().tolist() == [8 * (t // 4) + 7 - t % 4 for t in range(16)]


def test_cores_access_the_scratchpad_windows_of_other_cores() -> None:
    """Core 0 fills its window, core 1 reads it, core 2 its own, which is untouched."""
    build = ProgramBuilder((3,))
    source, target = build.argument(F32), build.argument(F32)
    tile = build.tensor(F32, 8)
    zero = build.constant(0)
    own = build.view(build.constant(16), F32, [8], space=Space.SCRATCHPAD)
    owner = build.register()
    first = build.view(build.constant(16), F32, [8], space=Space.SCRATCHPAD, core=owner)
    is_two = build.scalar("cmpi_eq", I64, CORE_REGISTER, build.constant(2), result=I1)
    widened = build.scalar("extui", I1, is_two, result=I64)
    build.emit(ins.Scalar, "muli", I64, I64, owner, (widened, build.constant(2)))
    is_zero = build.scalar("cmpi_eq", I64, CORE_REGISTER, zero, result=I1)
    build.emit(ins.Branch, is_zero, 7)
    build.transfer(tile, [8], [zero], build.view(source, F32, [8]), store=False)
    build.transfer(tile, [8], [zero], own, store=True)
    build.transfer(tile, [8], [zero], first, store=False)
    place = build.scalar("muli", I64, CORE_REGISTER, build.constant(8))
    build.transfer(tile, [8], [place], build.view(target, F32, [24]), store=True)
    result = zeros(24)
    run(build, torch.arange(1.0, 9.0).to("spyre"), result, ordered=True)
    assert result.cpu().tolist() == [*range(1, 9), *range(1, 9), *([0] * 8)]


@pytest.mark.parametrize("base", [-1, 2**19 - 7])
def test_access_outside_a_scratchpad_window_raises(base: int) -> None:
    build = ProgramBuilder()
    tile = build.tensor(F32, 8)
    view = build.view(build.constant(base), F32, [8], space=Space.SCRATCHPAD)
    build.transfer(tile, [8], [build.constant(0)], view, store=True)
    with pytest.raises(RuntimeError, match="of its scratchpad window of 2097152 bytes"):
        run(build)


def test_scratchpad_of_a_missing_core_raises() -> None:
    build = ProgramBuilder((2,))
    tile = build.tensor(F32, 8)
    core = build.constant(2)
    view = build.view(build.constant(0), F32, [8], space=Space.SCRATCHPAD, core=core)
    build.transfer(tile, [8], [build.constant(0)], view, store=False)
    with pytest.raises(RuntimeError, match="no core 2 whose scratchpad"):
        run(build)


def test_fixed_buffers_are_memory_and_arrays_give_way() -> None:
    build = ProgramBuilder()
    build.fixed_buffers.append(ins.FixedBuffer("%view", 0x10000, 256, F32, (64,)))
    source = build.argument(F32)
    tile = build.tensor(F32, 64)
    zero = build.constant(0)
    build.transfer(tile, [64], [zero], build.view(source, F32, [64]), store=False)
    fixed = build.view(build.constant(0x10000 // 4), F32, [64])
    build.transfer(tile, [64], [zero], fixed, store=True)
    memory = zeros(64)
    run(build, torch.arange(64.0).to("spyre"), fixed=[memory])
    assert torch.equal(memory.cpu(), torch.arange(64.0))

"""Programs made by hand, executed on the emulated card."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from program_builder import ProgramBuilder, run

from torch_spyre import knobs
from torch_spyre.backend.launch import LaunchCost, launch
from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, NO_REGISTER, ElementType, Space

F32, I32, I64, I1 = ElementType.F32, ElementType.I32, ElementType.I64, ElementType.I1


@pytest.fixture(autouse=True)
def _nothing_pending() -> Iterator[None]:
    yield
    torch.spyre.synchronize()


def on_card(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to("spyre")


def zeros(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(count, dtype=dtype, device="spyre")


def addition(count: int = 256, cores: int = 4) -> ProgramBuilder:
    """c = a + b, a slice on each core."""
    build = ProgramBuilder((cores,), "add_vectors")
    arrays = [build.argument(F32) for _ in range(3)]
    share = count // cores
    tiles = [build.tensor(F32, share) for _ in range(3)]
    views = [build.view(array, F32, [count]) for array in arrays]
    first = build.scalar("muli", I64, CORE_REGISTER, build.constant(share))
    build.transfer(tiles[0], [share], [first], views[0], store=False)
    build.transfer(tiles[1], [share], [first], views[1], store=False)
    build.elementwise("addf", [share], tiles[2], tiles[0], tiles[1])
    build.transfer(tiles[2], [share], [first], views[2], store=True)
    return build


def copy(count: int, type: ElementType = F32) -> ProgramBuilder:
    """Array 0 to array 1, `count` elements in one tile."""
    build = ProgramBuilder()
    source, target = build.argument(type), build.argument(type)
    tile = build.tensor(type, count)
    zero = build.constant(0)
    build.transfer(tile, [count], [zero], build.view(source, type, [count]), store=False)
    build.transfer(tile, [count], [zero], build.view(target, type, [count]), store=True)
    return build


def store_scalar(build: ProgramBuilder, array: int, value: int, type: ElementType = I32) -> None:
    """Writes a register to the element of `array` that has the core's number."""
    tile = build.tensor(type, 1)
    scalar = ins.Input(ins.InputKind.SCALAR, replace(tile, strides=()), type, value)
    step = ins.ChainStep(-1, "addi", type, type, (0, 1))
    zero = ins.Input(ins.InputKind.SCALAR, replace(tile, strides=()), type, build.constant(0))
    output = ins.ChainOutput(2, tile)
    build.emit(ins.Chain, (build.constant(1),), (scalar, zero), (step,), (), (output,))
    view = build.view(array, type, [64])
    build.transfer(tile, [1], [CORE_REGISTER], view, store=True)


@pytest.mark.parametrize("cores", [1, 4, 32])
def test_adds_two_vectors_on_several_cores(cores: int) -> None:
    a, b = torch.randn(256), torch.randn(256)
    c = zeros(256)
    run(addition(cores=cores), a.to("spyre"), b.to("spyre"), c)
    assert torch.equal(c.cpu(), a + b)


@pytest.mark.parametrize("type", [ElementType.F16, I32, ElementType.I8])
def test_moves_elements_of_every_size(type: ElementType) -> None:
    dtypes = {ElementType.F16: torch.float16, I32: torch.int32, ElementType.I8: torch.int8}
    source = torch.arange(100).to(dtypes[type])
    target = zeros(100, dtypes[type])
    run(copy(100, type), source.to("spyre"), target)
    assert torch.equal(target.cpu(), source)


def test_first_array_arrives_at_0x10000() -> None:
    build = ProgramBuilder()
    address, target = build.argument(I32), build.argument(I32)
    narrow = build.scalar("trunci", I64, address, result=I32)
    store_scalar(build, target, narrow)
    result = zeros(64, torch.int32)
    run(build, zeros(64, torch.int32), result)
    assert result.cpu()[0] == 0x10000 // 4


def test_core_coordinates_count_the_first_dimension_fastest() -> None:
    build = ProgramBuilder((2, 3, 4))
    target = build.argument(I32)
    ten, hundred = build.constant(10), build.constant(100)
    y = build.scalar("muli", I64, ins.CORE_Y, ten)
    z = build.scalar("muli", I64, ins.CORE_Z, hundred)
    total = build.scalar("addi", I64, build.scalar("addi", I64, ins.CORE_X, y), z)
    store_scalar(build, target, build.scalar("trunci", I64, total, result=I32))
    result = zeros(64, torch.int32)
    run(build, result)
    expected = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert result.cpu()[:24].tolist() == expected


def loop_sum(lower: int, upper: int, step: int) -> ProgramBuilder:
    build = ProgramBuilder()
    target = build.argument(I32)
    variable, total = build.register(), build.register()
    build.emit(ins.Move, total, build.constant(0))
    bounds = build.all_constants([lower, upper, step])
    begin = build.emit(ins.LoopBegin, variable, *bounds, 0)
    build.emit(ins.Scalar, "addi", I64, I64, total, (total, variable))
    end = build.emit(ins.LoopEnd, begin)
    build.code[begin] = replace(build.code[begin], end=end)  # type: ignore[call-arg]
    store_scalar(build, target, build.scalar("trunci", I64, total, result=I32))
    return build


@pytest.mark.parametrize("bounds", [(0, 10, 1), (3, 20, 4), (5, 5, 1), (7, 3, 1), (-4, 4, 3)])
def test_loops_count_as_range_does(bounds: tuple[int, int, int]) -> None:
    result = zeros(64, torch.int32)
    run(loop_sum(*bounds), result)
    assert result.cpu()[0] == sum(range(*bounds))


def test_loop_near_the_largest_integer_ends() -> None:
    largest = 2**63 - 1
    build = loop_sum(largest - 1, largest, 3)
    result = zeros(64, torch.int32)
    run(build, result)
    assert result.cpu()[0] == -2


@pytest.mark.parametrize("step", [0, -1])
def test_refuses_a_loop_step_that_is_not_positive(step: int) -> None:
    with pytest.raises(
        RuntimeError, match=r"kernel kernel, core 0, instruction 1 \(test.loop at 2:3\)"
    ):
        run(loop_sum(0, 4, step), zeros(64, torch.int32))


@pytest.mark.parametrize("limit", [0, 2, 5])
def test_branches_per_core(limit: int) -> None:
    """Cores below the limit write 7, the others 9."""
    build = ProgramBuilder((4,))
    target = build.argument(I32)
    chosen = build.register()
    condition = build.scalar("cmpi_slt", I64, CORE_REGISTER, build.constant(limit), result=I1)
    seven, nine = build.all_constants([7, 9])
    build.emit(ins.Branch, condition, 4)
    build.emit(ins.Move, chosen, seven)
    build.emit(ins.Jump, 5)
    build.emit(ins.Move, chosen, nine)
    store_scalar(build, target, chosen)
    result = zeros(64, torch.int32)
    run(build, result)
    assert result.cpu()[:4].tolist() == [7 if core < limit else 9 for core in range(4)]


def test_tables_differ_per_core() -> None:
    build = ProgramBuilder((3,))
    target = build.argument(I32)
    build.tables.append(((5,), (6, 7), (8, 9, 10)))
    length, last, entry = build.register(), build.register(), build.register()
    build.emit(ins.TableLookup, length, 0, NO_REGISTER)
    build.emit(ins.Scalar, "subi", I64, I64, last, (length, build.constant(1)))
    build.emit(ins.TableLookup, entry, 0, last)
    store_scalar(build, target, build.scalar("trunci", I64, entry, result=I32))
    result = zeros(64, torch.int32)
    run(build, result)
    assert result.cpu()[:3].tolist() == [5, 7, 10]


def test_reads_zeros_and_writes_nothing_beyond_an_arrays_end() -> None:
    source, target = torch.arange(1.0, 65.0), torch.full((64,), -1.0).to("spyre")
    run(copy(64), source.to("spyre"), target, array_bytes=[40 * 4, 50 * 4])
    expected = torch.cat([source[:40], torch.zeros(10), torch.full((14,), -1.0)])
    assert torch.equal(target.cpu(), expected)


@pytest.mark.parametrize("strides", [[1, 8], [-8, 1], [16, -1], [0, 1]])
def test_strided_views_of_any_direction(strides: list[int]) -> None:
    """An 8 x 8 tile whose first element makes all others lie at 64 or above."""
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


def test_refuses_an_access_before_an_array() -> None:
    build = ProgramBuilder()
    source = build.argument(F32)
    tile = build.tensor(F32, 4)
    view = build.view(source, F32, [4])
    build.transfer(tile, [4], [build.constant(-1)], view, store=False)
    with pytest.raises(RuntimeError, match="before the begin of its memory of 256 bytes"):
        run(build, zeros(64))


def test_refuses_memory_that_is_not_there() -> None:
    build = ProgramBuilder()
    tile = build.tensor(F32, 4)
    view = build.view(build.constant(123456), F32, [4])
    build.transfer(tile, [4], [build.constant(0)], view, store=True)
    with pytest.raises(RuntimeError, match=f"no memory at byte address {4 * 123456}"):
        run(build)


def partitioned(lower: tuple[int, ...], sizes: tuple[int, ...], anchor: int) -> ProgramBuilder:
    """Ten elements of a view whose partitions are the arrays but the last, which takes them."""
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


def test_tile_takes_from_all_partitions_and_the_last_wins() -> None:
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


def test_refuses_a_tile_that_no_partition_holds() -> None:
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
    # The card goes on.
    test_gathers_rows()


def test_index_beyond_its_view_is_an_index_error() -> None:
    build = gather(32, indices_seen=3)
    with pytest.raises(IndexError, match="the place of an index 3 is out of range"):
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


def test_cores_reach_each_others_scratchpad_windows() -> None:
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
def test_refuses_to_leave_a_scratchpad_window(base: int) -> None:
    build = ProgramBuilder()
    tile = build.tensor(F32, 8)
    view = build.view(build.constant(base), F32, [8], space=Space.SCRATCHPAD)
    build.transfer(tile, [8], [build.constant(0)], view, store=True)
    with pytest.raises(RuntimeError, match="of its scratchpad window of 2097152 bytes"):
        run(build)


def test_refuses_the_scratchpad_of_a_core_that_is_not_there() -> None:
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


def test_matrix_product_adds_to_its_initial_value() -> None:
    build = ProgramBuilder()
    arrays = [build.argument(F32) for _ in range(3)]
    shapes = [(2, 3, 5), (2, 5, 4), (2, 3, 4)]
    tiles = [build.tensor(F32, *shape) for shape in shapes]
    zero = build.constant(0)
    for array, shape, tile in zip(arrays, shapes, tiles, strict=True):
        view = build.view(array, F32, shape)
        build.transfer(tile, shape, [zero] * 3, view, store=False)
    sizes = build.all_constants([2, 3, 4, 5])
    a, b, c = tiles
    build.emit(ins.MatrixProduct, *sizes, a, b, True, c, c)
    view = build.view(arrays[2], F32, shapes[2])
    build.transfer(c, shapes[2], [zero] * 3, view, store=True)
    values = [torch.randint(-8, 8, shape).float() for shape in shapes]
    device = [value.ravel().to("spyre") for value in values]
    run(build, *device)
    expected = torch.baddbmm(values[2], values[0], values[1])
    assert torch.equal(device[2].cpu().view(2, 3, 4), expected)


def test_extracts_an_element_and_checks_its_index() -> None:
    def program(index: int) -> ProgramBuilder:
        build = ProgramBuilder()
        source, target = build.argument(I32), build.argument(I32)
        tile = build.tensor(I32, 4, 4)
        zero = build.constant(0)
        view = build.view(source, I32, [4, 4])
        build.transfer(tile, [4, 4], [zero, zero], view, store=False)
        found = build.register()
        indices, extents = build.all_constants([2, index]), build.all_constants([4, 4])
        build.emit(ins.Extract, found, tile, indices, extents)
        store_scalar(build, target, found)
        return build

    values, result = torch.arange(100, 116, dtype=torch.int32), zeros(64, torch.int32)
    run(program(3), values.to("spyre"), result)
    assert result.cpu()[0] == 111
    with pytest.raises(IndexError, match="index 4 is out of range in dimension 1 of size 4"):
        run(program(4), values.to("spyre"), result)


def test_timing_mode_advances_clocks_and_counters_only() -> None:
    before = torch.spyre.counters()
    result = torch.full((256,), -1.0).to("spyre")
    start, end = torch.Event("spyre", enable_timing=True), torch.Event("spyre", enable_timing=True)
    start.record()
    a = torch.ones(256).to("spyre")
    program = addition().load()
    torch.spyre.synchronize()
    start.record()
    run(program, a, a, result, cost=(5_000_000_000, 2048, 1024), execute=False)
    end.record()
    torch.spyre.synchronize()
    assert start.elapsed_time(end) == pytest.approx(5.0)
    assert result.cpu().tolist() == [-1.0] * 256
    after = torch.spyre.counters()
    for name, change in (
        ("launches", 1),
        ("device_time_ps", 5_000_000_000),
        ("ddr_read_bytes", 2048),
        ("ddr_write_bytes", 1024),
    ):
        assert after[name] - before[name] == change


@pytest.mark.parametrize(
    ("mode", "computes", "time"), [("functional", 1, 0), ("timing", 0, 7), ("both", 1, 7)]
)
def test_mode_knob_says_what_a_launch_does(mode: str, computes: bool, time: int) -> None:
    before = torch.spyre.counters()["device_time_ps"]
    one, result = torch.ones(256).to("spyre"), zeros(256)
    with knobs.override(SPYRE_EMU_MODE=mode):
        launch(addition().load(), [one, one, result], [1024] * 3, cost=LaunchCost(time_ps=7))
    torch.spyre.synchronize()
    assert result.cpu().tolist() == [2.0 * computes] * 256
    assert torch.spyre.counters()["device_time_ps"] - before == time


@pytest.mark.parametrize("instruction", ["addf", "load", "store"])
def test_injection_spoils_one_element(instruction: str) -> None:
    one, result = torch.ones(256).to("spyre"), zeros(256)
    run(addition(), one, one, result, inject=f"flip:{instruction}")
    assert (result.cpu() != 2).sum() == 1
    run(addition(), one, one, result)
    assert (result.cpu() == 2).all()


def test_injection_of_another_instruction_changes_nothing() -> None:
    one, result = torch.ones(256).to("spyre"), zeros(256)
    run(addition(), one, one, result, inject="flip:matmul")
    assert (result.cpu() == 2).all()
    with pytest.raises(ValueError, match="flip:<instruction>"):
        run(addition(), one, one, result, inject="flop")
    with pytest.raises(RuntimeError, match="no instruction is called 'nothing'"):
        run(addition(), one, one, result, inject="flip:nothing")


def test_watchdog_stops_an_endless_loop() -> None:
    build = loop_sum(0, 2**62, 1)
    with pytest.raises(RuntimeError, match="the kernel was stopped: it has run for more than"):
        run(build, zeros(64, torch.int32), watchdog_seconds=0.2)
    test_adds_two_vectors_on_several_cores(4)


def test_error_names_the_lowest_core_that_fails() -> None:
    build = ProgramBuilder((8,), "bad_kernel")
    array = build.argument(F32)
    tile = build.tensor(F32, 4)
    two = build.constant(2)
    anchor = build.scalar("subi", I64, two, CORE_REGISTER)
    build.transfer(tile, [4], [anchor], build.view(array, F32, [64]), store=False)
    for _ in range(5):
        with pytest.raises(
            RuntimeError, match=r"kernel bad_kernel, core 3, instruction 1 \(test.transfer at 2:3\)"
        ):
            run(build, zeros(64))


def test_launches_on_several_streams() -> None:
    program = addition().load()
    results = []
    for index in range(6):
        stream = torch.Stream("spyre")
        with stream:
            value = torch.full((256,), float(index)).to("spyre")
            result = zeros(256)
            for _ in range(20):
                run(program, value, result, result, wait=False)
        results.append(result)
    torch.spyre.synchronize()
    for index, result in enumerate(results):
        assert result.cpu().tolist() == [20.0 * index] * 256


def test_queued_launches_keep_their_memory() -> None:
    program, result = addition().load(), zeros(256)
    for index in range(50):
        run(program, torch.full((256,), float(index)).to("spyre"), result, result, wait=False)
    del program
    torch.spyre.synchronize()
    assert result.cpu().tolist() == [float(sum(range(50)))] * 256


def test_ordered_cores_see_what_earlier_ones_wrote() -> None:
    """Each core adds one to the same element."""
    build = ProgramBuilder((32,))
    array = build.argument(F32)
    tile, one = build.tensor(F32, 1), build.tensor(F32, 1)
    zero = build.constant(0)
    view = build.view(array, F32, [64])
    build.transfer(tile, [1], [zero], view, store=False)
    build.transfer(one, [1], [build.constant(1)], view, store=False)
    build.elementwise("addf", [1], tile, tile, one)
    build.transfer(tile, [1], [zero], view, store=True)
    values = torch.ones(64).to("spyre")
    run(build, values, ordered=True)
    assert values.cpu()[0] == 33


def test_wrong_arguments_are_refused() -> None:
    program, array = addition().load(), zeros(256)
    with pytest.raises(RuntimeError, match="takes 3 arrays, 0 scalars and 0 fixed buffers"):
        run(program, array, array)
    with pytest.raises(RuntimeError, match="must be a tensor on spyre:0"):
        run(program, array, array, torch.zeros(256))
    with pytest.raises(RuntimeError, match="needs 1028 bytes, and its storage has 1024"):
        run(program, array, array, array, array_bytes=[1024, 1024, 1028])
    with pytest.raises(RuntimeError, match="needs -1 bytes"):
        run(program, array, array, array, array_bytes=[1024, 1024, -1])
    with pytest.raises(RuntimeError, match="begins at element 32"):
        run(program, array, array, array[32:], array_bytes=[0, 0, 0])
    with pytest.raises(ValueError, match="watchdog_seconds"):
        run(program, array, array, array, watchdog_seconds=-1)


def test_scalars_and_empty_arrays() -> None:
    build = ProgramBuilder()
    empty, target = build.argument(F32), build.argument(I32)
    number = build.argument(I32, is_array=False)
    tile = build.tensor(F32, 4)
    build.transfer(tile, [4], [build.constant(0)], build.view(empty, F32, [4]), store=True)
    store_scalar(build, target, number)
    result = zeros(64, torch.int32)
    run(build, zeros(0), result, scalars=[41])
    assert result.cpu()[0] == 41


def test_program_for_more_cores_than_the_card_has_is_refused() -> None:
    with pytest.raises(ValueError, match="is for 64 cores, and this card has 32"):
        addition(cores=64).load()

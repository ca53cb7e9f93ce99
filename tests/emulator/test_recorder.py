"""Record and time hand-written programs: the worked rows of docs/timing.md, and counts."""

import pytest
from program_builder import ProgramBuilder, row_major

from torch_spyre import _C
from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.encoding import encode
from torch_spyre.backend.program.instructions import (
    CORE_REGISTER,
    CORE_X,
    CORE_Y,
    NO_REGISTER,
    ChainStep,
    DeliveryKind,
    ElementType,
    Input,
    InputKind,
    Operand,
)
from torch_spyre.cards import load_card
from torch_spyre.timing import ProgramRecord, RingTransfer, estimate
from torch_spyre.timing.from_counts import record_of

F16, F32, I64 = ElementType.F16, ElementType.F32, ElementType.I64
CARD = load_card("spyre")
LANES = (CARD.timing.SFP_LANES_16, CARD.timing.SFP_LANES_32)
CORES = 32


def counts(build, array_bytes=(), scalars=(), memories=()):
    file = encode(build.content())
    return _C.record_program(file, list(array_bytes), list(scalars), LANES, list(memories))


def record(build, array_bytes=()):
    return record_of(build.content(), counts(build, array_bytes))


def timing(build, array_bytes=()):
    return estimate(record(build, array_bytes), CARD)


def loop(build, upper, step):
    """Begin a loop; return its variable and a function that ends it."""
    variable = build.register()
    registers = [build.constant(value) for value in (0, upper, step)]
    begin = build.emit(ins.LoopBegin, variable, *registers, 0)
    return variable, lambda: build.end_loop(begin)


def add(rows, columns, trip_rows):
    """Each core adds its rows, some in each trip."""
    build = ProgramBuilder((CORES,), "add")
    arrays = [build.argument(F16) for _ in range(3)]
    views = [build.view(array, F16, [rows, columns]) for array in arrays]
    tiles = [build.tensor(F16, trip_rows, columns) for _ in range(3)]
    share, zero = build.constant(rows // CORES), build.constant(0)
    first = build.scalar("muli", I64, CORE_REGISTER, share)
    row, end = loop(build, rows // CORES, trip_rows)
    anchor = [build.scalar("addi", I64, first, row), zero]
    for tile, view in zip(tiles[:2], views[:2], strict=True):
        build.transfer(tile, [trip_rows, columns], anchor, view, store=False)
    build.elementwise("addf", [trip_rows, columns], tiles[2], *tiles[:2])
    build.transfer(tiles[2], [trip_rows, columns], anchor, views[2], store=True)
    end()
    return build


def along_rows(operand):
    """One element for each row."""
    return Operand(operand.address, operand.bytes, operand.type, NO_REGISTER, (1, 0))


def given(*operands):
    return tuple(Input(InputKind.OPERAND, actual, actual.type) for actual in operands)


def softmax(rows, columns, cores=CORES):
    build = ProgramBuilder((cores,), "softmax")
    views = [build.view(build.argument(F16), F16, [rows, columns]) for _ in range(2)]
    extents = [rows // cores, columns]
    x = build.tensor(F16, *extents)
    row_values = [along_rows(build.tensor(F16, extents[0])) for _ in range(3)]
    start, largest, total = row_values
    first = build.scalar("muli", I64, CORE_REGISTER, build.constant(extents[0]))
    anchor = [first, build.constant(0)]
    registers = build.all_constants(extents)

    def reduce(combine, result):
        fields = (registers, given(x), (), (), (1,), (0,), combine, (), (), (start,), (result,))
        build.emit(ins.Reduce, *fields)

    def chain(steps, *inputs):
        made = tuple(ChainStep(-1, op, F16, F16, values) for op, values in steps)
        output = ins.ChainOutput(len(inputs) + len(steps) - 1, x)
        build.emit(ins.Chain, registers, given(*inputs), made, (), (output,))

    build.transfer(x, extents, anchor, views[0], store=False)
    reduce("maximumf", largest)
    chain([("subf", (0, 1)), ("exp", (2,))], x, largest)
    reduce("addf", total)
    chain([("divf", (0, 1))], x, total)
    build.transfer(x, extents, anchor, views[1], store=True)
    return build


def matmul(m, k, n, row_splits, column_splits):
    """Matrices as the device lays them out: columns of sticks, [columns / 64, rows, 64]."""
    build = ProgramBuilder((row_splits, column_splits), "matmul")
    rows, columns, zero = m // row_splits, n // column_splits, build.constant(0)
    first_row = build.scalar("muli", I64, CORE_X, build.constant(rows))
    first_stick = build.scalar("muli", I64, CORE_Y, build.constant(columns // 64))

    def move(array_rows, array_columns, tile_rows, tile_columns, first_row, first_stick, store):
        view = build.view(build.argument(F16), F16, [array_columns // 64, array_rows, 64])
        extents = [tile_columns // 64, tile_rows, 64]
        tile = build.tensor(F16, *extents)
        build.transfer(tile, extents, [first_stick, first_row, zero], view, store=store)
        return Operand(tile.address, tile.bytes, F16, NO_REGISTER, (0, tile_columns, 1))

    a = move(m, k, rows, k, first_row, zero, store=False)
    b = move(k, n, k, columns, zero, first_stick, store=False)
    out = move(m, n, rows, columns, first_row, first_stick, store=True)
    shape = build.all_constants([1, rows, columns, k])
    build.emit(ins.Matmul, *shape, a, b, False, a, out)
    return build


def test_time_of_an_add_is_bound_by_its_bytes():
    size = 2 * 4096 * 4096
    actual = timing(add(4096, 4096, 16), [size] * 3)
    assert actual.time_us == pytest.approx(863.7, rel=1e-3)
    assert actual.bound_by == "ddr"
    assert actual.busy.sfp == pytest.approx(5.5e6, rel=1e-2)
    assert (actual.ddr_read_bytes, actual.ddr_write_bytes) == (2 * size, size)
    assert actual.lx_bytes == 6 * size


def test_small_tiles_of_a_loop_reach_part_of_the_bandwidth():
    size = 2 * 4096 * 4096
    actual = [timing(add(4096, 4096, rows), [size] * 3).time_us for rows in (1, 4, 16)]
    share = [(rows / 7.9) ** 0.5 * 2**0.38 for rows in (1, 4)]
    assert actual == pytest.approx([863.7 / share[0], 863.7 / share[1], 863.7], rel=1e-3)


def test_time_of_a_softmax_in_the_scratchpad_is_bound_by_its_bytes():
    size = 2 * 4096 * 2048
    actual = timing(softmax(4096, 2048), [size] * 2)
    assert actual.time_us == pytest.approx(320.0, rel=1e-3)
    # 11 passes, and a tree for two sticks of results in each of two reductions.
    assert actual.busy.sfp == pytest.approx((11 * 4096 + 2 * 2 * 6) / 1.5e-3, rel=1e-6)
    assert actual.lx_peak_bytes >= 2 * 128 * 2048


def test_softmax_on_one_core_uses_part_of_the_bandwidth():
    actual = timing(softmax(512, 1024, cores=1), [2 * 512 * 1024] * 2)
    assert actual.time_us == pytest.approx(181.8, rel=1e-3)


@pytest.mark.parametrize(
    ("size", "time_us", "pt_us", "bound_by"),
    [(1024, 54.0, 29.4, "ddr"), (2048, 235.5, 235.5, "pt")],
)
def test_matmul_tiles_are_shared_by_rows_and_columns_of_cores(size, time_us, pt_us, bound_by):
    # 2048 wide tiles exceed a core's scratchpad; a kernel would loop, the counts are the same.
    build = matmul(size, size, size, 4, 8)
    whole = record(build, [2 * size * size] * 3)
    actual = estimate(ProgramRecord(name=whole.name, steps=whole.steps), CARD)
    assert actual.time_us == pytest.approx(time_us, rel=2e-3)
    assert actual.busy.pt == pytest.approx(pt_us * 1e6, rel=2e-3)
    assert actual.bound_by == bound_by
    assert actual.macs == size**3
    assert actual.ddr_read_bytes == 2 * 2 * size * size


def test_short_runs_are_bound_by_their_requests():
    """The columns of a matrix: runs of one stick."""
    build = ProgramBuilder((CORES,))
    view = build.view(build.argument(F16), F16, [4096, CORES * 64])
    tile = build.tensor(F16, 4096, 64)
    first = build.scalar("muli", I64, CORE_REGISTER, build.constant(64))
    build.transfer(tile, [4096, 64], [build.constant(0), first], view, store=False)
    actual = timing(build, [2 * 4096 * CORES * 64])
    assert actual.ddr_requests == 4096 * CORES
    assert actual.time_us == pytest.approx(4096 * CORES * 4.7e-3, rel=1e-3)


def test_transfers_beyond_the_end_of_arrays_are_not_counted():
    size = 2 * 4096 * 4096
    half = timing(add(4096, 4096, 16), [size // 2, size, size])
    assert half.ddr_read_bytes == size // 2 + size


def test_writes_of_one_core_conflict_with_reads_of_another():
    build = add(4096, 4096, 16)
    size = 2 * 4096 * 4096
    assert not counts(build, [size] * 3)["conflict"]
    assert not counts(build, [size] * 3, memories=[0, 1, 0])["conflict"]
    shared = ProgramBuilder((2,))
    view = shared.view(shared.argument(F16), F16, [64])
    shared.transfer(shared.tensor(F16, 64), [64], [shared.constant(0)], view, store=True)
    assert counts(shared, [128])["conflict"]


def test_deliveries_between_cores_load_the_ring():
    build = ProgramBuilder((8,))
    build.channels = 1
    tile = build.tensor(F16, 64)
    build.emit(ins.Publish, 0, (ins.PublishedTile(tile.address, tile.bytes),))
    build.emit(ins.Delivered, 0, DeliveryKind.REDUCE, 8, 128)
    (step,) = record(build).steps
    assert step.ring == (RingTransfer.all_reduce(cores=8, tile_bytes=128),)
    assert timing(build).cycles == 7 + 7 * 4


@pytest.mark.parametrize("kind", list(DeliveryKind))
def test_every_kind_of_delivery_has_a_time_that_the_ring_allows(kind):
    build = ProgramBuilder((4, 8))
    build.channels = 1
    tile = build.tensor(F16, 64 * 100)
    _, end = loop(build, 3, 1)
    build.emit(ins.Publish, 0, (ins.PublishedTile(tile.address, tile.bytes),))
    build.emit(ins.Delivered, 0, kind, 8, 12800)
    end()
    actual = timing(build)
    assert actual.time_ps == actual.ring_exposed_ps + actual.relayout_ps > 0
    assert (actual.relayout_ps > 0) == (kind == DeliveryKind.ALL_TO_ALL)
    assert 0 < actual.utilisation.ring <= 1


def test_costs_of_vector_instructions_come_from_their_table():
    build = ProgramBuilder()
    tile = build.tensor(F16, 64)
    wide = build.tensor(F32, 64)
    for op in ("negf", "exp", "reciprocal"):
        build.elementwise(op, [64], tile, tile)
    build.elementwise("extf", [64], wide, tile)
    steps = record(build).steps
    work = [(item.cost, item.element_bytes) for step in steps for item in step.sfp]
    assert work == [("simple", 2), ("transcendental", 2), ("divide", 2), ("simple", 4)]


def bitonic_exchanges(length, kept, run):
    """Return the elements that pass all stages of a network, counted stage by stage."""
    block, sorted_block, exchanges = 1, 1, 0
    while block < kept:
        block *= 2
    while sorted_block < min(run, block):
        sorted_block *= 2
    while sorted_block < block:
        sorted_block *= 2
        distance = sorted_block // 2
        while distance:
            exchanges += length
            distance //= 2
    while length > block:
        exchanges += length
        length = -(-length // (2 * block)) * block
        distance = block // 2
        while distance:
            exchanges += length
            distance //= 2
    return exchanges


@pytest.mark.parametrize(
    ("length", "kept", "run"),
    [(512, 512, 1), (512, 512, 256), (512, 256, 256), (512, 8, 1), (512, 32, 4), (2048, 64, 64)],
)
def test_a_sort_counts_the_stages_of_a_network(length, kept, run):
    build = ProgramBuilder()
    keys, indices = build.tensor(F16, 64, length), build.tensor(ElementType.I32, 64, length)
    sorted_keys = build.tensor(F16, 64, kept)
    sorted_indices = build.tensor(ElementType.I32, 64, kept)
    registers = build.all_constants([64, length]), build.constant(0), build.constant(kept)
    build.emit(ins.Sort, *registers, run, False, keys, indices, sorted_keys, sorted_indices)
    (instruction,) = counts(build)["instructions"]
    exchanges = 64 * bitonic_exchanges(length, kept, run)
    assert instruction["exchanges"] == (exchanges, exchanges)
    assert instruction["scratchpad_bytes"][0] == 12 * exchanges
    (step,) = record(build).steps
    assert [(work.cost, work.elements) for work in step.sfp] == [("exchange", exchanges)]
    cycles = exchanges // LANES[1] * CARD.timing.SFP_COST_EXCHANGE
    assert timing(build).cycles == cycles


def test_damaged_programs_and_invalid_arguments_raise():
    build = add(4096, 4096, 16)
    file = encode(build.content())
    with pytest.raises(ValueError, match=r"."):
        _C.record_program(file[:-1], [0, 0, 0], [], LANES)
    with pytest.raises(RuntimeError, match=r"3 arrays and 0 scalars"):
        _C.record_program(file, [0, 0], [], LANES)
    with pytest.raises(ValueError, match=r"memories"):
        _C.record_program(file, [0, 0, 0], [], LANES, [1])


def test_batched_matmuls_are_counted():
    build = ProgramBuilder()
    tiles = [build.tensor(F16, *size) for size in ([4, 16, 32], [4, 32, 8], [4, 16, 8])]
    a, b, out = (
        Operand(tile.address, tile.bytes, F16, NO_REGISTER, row_major(size))
        for tile, size in zip(tiles, ([4, 16, 32], [4, 32, 8], [4, 16, 8]), strict=True)
    )
    build.emit(ins.Matmul, *build.all_constants([4, 16, 8, 32]), a, b, False, a, out)
    (step,) = record(build).steps
    (work,) = step.pt
    assert (work.kind, work.batch, work.macs) == ("batched", 4, 4 * 16 * 8 * 32)

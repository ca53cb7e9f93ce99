"""The preset ktir-cpu gives the cycles that the public KTIR interpreter reports."""

from fractions import Fraction

import pytest
from timing_programs import matmul_step, program, read, scratchpad, vector, write

from torch_spyre import knobs
from torch_spyre.cards import load_card
from torch_spyre.timing import DdrTransfer, PtWork, RingTransfer, Step, estimate

CARD = load_card("ktir-cpu")


def with_constants(**changes):
    return CARD.model_copy(update={"timing": CARD.timing.model_copy(update=changes)})


def cycles(*steps, card=CARD):
    """Fractional: the interpreter does not round, and a cycle of its clock is 1000 ps."""
    return estimate(program(*steps), card).time_ps / 1000


def vector_add(cores=32):
    """1024 fp16 elements per core."""
    size = 2048 * cores
    moves = (read(size, cores=cores), read(size, cores=cores), write(size, cores=cores))
    sfp = (vector("simple", 1024 * cores, cores),)
    # Scratchpad access is free, so its bytes must not show in the time.
    return Step(name="add", op="add", cores=cores, sfp=sfp, ddr=moves, lx=(scratchpad(6 * size),))


def test_vector_add_of_1024_elements_per_core():
    timing = estimate(program(vector_add()), CARD)
    assert timing.cycles == 3 * 2048 // 4 + 16 == 1552
    assert (timing.time_us, timing.bound_by) == (1.552, "ddr")
    assert timing.utilisation.lx == 0


def test_the_documented_213_cycles_come_from_the_documented_bandwidth():
    # The interpreter documents 1.0 TB/s, which is 31.25 bytes per cycle and core.
    documented = with_constants(DDR_BW=Fraction(1000), DDR_PEAK=Fraction(1000))
    assert round(cycles(vector_add(), card=documented)) == 213


def test_the_card_in_use_is_the_one_spyre_card_names():
    with knobs.override(SPYRE_CARD="ktir-cpu"):
        assert estimate(program(vector_add())).cycles == 1552
    assert estimate(program(vector_add())).cycles != 1552


def test_matmul_of_64_cubed_on_one_core():
    step = matmul_step(64, 64, 64, row_splits=1, column_splits=1)
    alone = Step(name="mm", op="matmul", cores=1, pt=step.pt)
    assert cycles(alone) == 2 * 64**3 / 1024 == 512


def test_batched_matmul_counts_all_dims():
    # The interpreter itself has 2*B*M*K here, by mistake.
    macs = 4 * 64 * 32 * 16
    work = PtWork(macs=macs, busiest_core_macs=macs, rows=64, kind="batched", batch=4)
    assert cycles(Step(name="bmm", op="batch_matmul", cores=1, pt=(work,))) == 2 * macs / 1024


@pytest.mark.parametrize(("cores", "expected"), [(32, 512), (16, 256), (1, 16)])
def test_a_load_of_2048_bytes_shares_the_bandwidth_with_the_active_cores(cores, expected):
    step = Step(name="load", op="load", cores=cores, ddr=(read(2048 * cores, cores=cores),))
    assert cycles(step) == expected


def test_bandwidth_per_core_is_limited():
    # One of 32 cores loads; the others' bandwidth stays unused.
    load = read(2048, distinct_bytes=2048, busiest_core_bytes=2048)
    assert cycles(Step(name="load", op="load", cores=32, ddr=(load,))) == 512


def test_a_gather_pays_for_its_indices():
    # 64x64 fp16 by two 64x64 i32 index tensors in device memory: 40,960 bytes.
    moves = tuple(read(size, cores=1, run_bytes=128) for size in (8192, 16384, 16384))
    timing = estimate(program(Step(name="gather", op="load", cores=1, ddr=moves)), CARD)
    assert timing.ddr_read_bytes == 40_960
    assert timing.cycles == 40_960 // 128


def test_scratchpad_access_is_free():
    assert cycles(Step(name="load", op="load", cores=32, lx=(scratchpad(2**20),))) == 0


@pytest.mark.parametrize(("lx_bytes", "expected"), [(0, 512), (64 * 500, 512), (64 * 600, 600)])
def test_a_view_of_both_memories_takes_the_slower_of_the_two(lx_bytes, expected):
    load = DdrTransfer(
        direction="read",
        bytes=2048 * 32,
        distinct_bytes=2048 * 32,
        busiest_core_bytes=2048,
        run_bytes=2048,
        mixed_lx_bytes=lx_bytes,
    )
    assert cycles(Step(name="load", op="load", cores=32, ddr=(load,))) == expected


def test_a_transcendental_costs_four_plain_ops_and_a_division_one():
    plain, division, exponential = (
        cycles(Step(name=cost, op=cost, cores=32, sfp=(vector(cost, 32 * 100),)))
        for cost in ("simple", "divide", "transcendental")
    )
    assert plain == division == pytest.approx(100 / 64, abs=1e-3)
    assert exponential == pytest.approx(4 * 100 / 64, abs=1e-3)


def test_a_ring_reduction_sends_the_tile_in_every_round():
    ring = RingTransfer.all_reduce(cores=8, tile_bytes=128)
    timing = estimate(program(Step(name="r", op="inter_tile_reduce", cores=8, ring=(ring,))), CARD)
    assert timing.cycles == 7 * 128 // 64
    assert timing.bound_by == "ring"


def test_pipelines_overlap_more_and_more():
    ring = RingTransfer.all_reduce(cores=32, tile_bytes=2048)
    steps = (vector_add(), Step(name="r", op="reduce", cores=32, ring=(ring,)))
    serial, overlapped, three_way = (
        cycles(*steps, card=with_constants(OVERLAP=rule))
        for rule in ("serial", "overlapped", "overlapped_3way")
    )
    memory, compute, communication = 1536, 16, 31 * 2048 / 64
    assert serial == compute + memory + communication
    assert overlapped == max(compute, memory + communication)
    assert three_way == max(compute, memory, communication)
    assert three_way <= overlapped <= serial

"""The time of device memory: patterns beside plain transfers, loops over tiles, repeated reads."""

import pytest
from timing_programs import CORES, copy, program, read, vector, write

from torch_spyre.cards import load_card
from torch_spyre.timing import DdrPattern, Step, TileLoop, estimate

CARD = load_card("spyre")
SIZE = 2**24
PLAIN_US = 2 * SIZE / 150e3 + SIZE * 5.74e-6


def moving(name="x", *, tile_loop=None, pattern=None):
    """Return a step that reads and writes SIZE bytes."""
    transfers = (read(SIZE), write(SIZE))
    facts = {"ddr": transfers, "tile_loop": tile_loop, "ddr_pattern": pattern}
    return Step(name=name, op="x", cores=CORES, **facts)


def test_steps_with_a_pattern_take_their_rate_and_all_others_one_plain_time():
    turned = moving("turned", pattern=DdrPattern(kind="restickify"))
    reads, writes = (
        Step(name=name, op="x", cores=CORES, ddr=(transfer,))
        for name, transfer in (("reads", read(SIZE)), ("writes", write(SIZE)))
    )
    timing = estimate(program(turned, reads, writes), CARD)
    # Turnaround is that of the two plain steps together; neither has it alone.
    assert timing.time_us == pytest.approx(2 * SIZE / 116e3 + PLAIN_US, rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "columns", "efficiency"),
    [
        (8, 2048, 1.0),
        (64, 2048, 1.0),
        (2, 2048, (2 / 7.9) ** 0.5),
        (4, 1024, (4 / 7.9) ** 0.5 * 0.5**0.38),
        # Below 0.248 the loss grows slowly.
        (1, 256, 0.248 * ((1 / 7.9) ** 0.5 * (1 / 8) ** 0.38 / 0.248) ** 0.1),
        # A working set of 2 MiB, of which 512 KiB are free.
        (256, 2048, 4**-0.06),
    ],
)
def test_loops_over_small_and_large_tiles_reach_a_share_of_the_bandwidth(rows, columns, efficiency):
    loop = TileLoop(rows=rows, columns=columns)
    timing = estimate(program(moving(tile_loop=loop)), CARD)
    assert timing.time_us == pytest.approx(PLAIN_US / efficiency, rel=1e-4)


def test_the_smallest_tile_of_a_program_determines_the_share():
    small, large = TileLoop(rows=2, columns=2048), TileLoop(rows=64, columns=2048)
    both = program(moving("small", tile_loop=small), moving("large", tile_loop=large))
    expected = 2 * PLAIN_US / (2 / 7.9) ** 0.5
    assert estimate(both, CARD).time_us == pytest.approx(expected, rel=1e-4)


def test_a_repeated_read_takes_85_percent_of_the_first_and_counts_all_bytes():
    step = Step(name="x", op="x", cores=CORES, ddr=(read(SIZE, reread_bytes=SIZE // 2),))
    timing = estimate(program(step), CARD)
    assert timing.time_us == pytest.approx((SIZE / 2 + 0.85 * SIZE / 2) / 150e3, rel=1e-6)
    assert timing.ddr_read_bytes == SIZE


def test_time_on_hardware_is_between_full_overlap_and_none():
    elements = 2**20
    step = Step(
        name="x",
        op="x",
        cores=CORES,
        sfp=(vector("transcendental", elements),),
        ddr=(read(2 * elements), write(2 * elements)),
    )
    timing = estimate(program(step), CARD)
    assert timing.time_ps == max(timing.busy.sfp, timing.busy.ddr)
    assert timing.serial_ps == pytest.approx(timing.busy.sfp + timing.busy.ddr, abs=1)
    assert timing.with_overlap(1) == timing.time_ps
    assert timing.with_overlap(0) == timing.serial_ps
    assert timing.time_ps < timing.with_overlap(0.5) < timing.serial_ps
    with pytest.raises(ValueError, match="between 0 and 1"):
        timing.with_overlap(1.5)


def test_a_program_of_one_unit_has_no_overlap_to_lose():
    timing = estimate(copy(SIZE), CARD)
    assert timing.serial_ps == timing.time_ps

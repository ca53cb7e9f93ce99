"""Published figures and the worked rows of the timing model, on the default card.

Expected values are the published worked rows, in microseconds, with the published digits.
"""

from pathlib import Path

import pytest
from timing_programs import (
    CORES,
    add,
    copy,
    matmul,
    program,
    read,
    scratchpad,
    softmax_in_lx,
    softmax_without_lx,
    transpose,
    vector,
    write,
)

from torch_spyre.cards import load_card
from torch_spyre.timing import DdrPattern, PtWork, Relayout, RingTransfer, SfpWork, Step, estimate

CARD = load_card("spyre")
PAGE = Path(__file__).parents[2] / "docs" / "timing.md"


def microseconds(picoseconds):
    return picoseconds / 1e6


# Program; PT, SFP, DDR and whole time in us; what bounds it; PT, SFP and DDR utilisation in %.
ROWS = {
    "softmax 4096×2048 in LX": (softmax_in_lx(4096, 2048), 0, 32.8, 320.0, 320.0, "ddr", 0, 10, 51),
    "the same, no LX": (softmax_without_lx(4096, 2048), 0, 30, 1145, 1145, "ddr", 0, None, 58),
    "add 4096²": (add(4096, 4096), 0, 5.5, 863.7, 863.7, "ddr", 0, None, 57),
    "mm 1024³ 4×8": (matmul(1024, 1024, 1024), 29.4, 0, 54.0, 54.0, "ddr", 40.5, 0, 57),
    "mm 2048³ 4×8": (matmul(2048, 2048, 2048), 235.5, 0, 215.9, 235.5, "pt", 74.2, 0, 52),
    "transpose 4096², run 128 B": (
        transpose(4096, 4096, 128), 0, 0, 578.5 + 942.8, 1521.3, "ddr", 0, 0, None),
    "transpose 4096², run 4096 B": (
        transpose(4096, 4096, 4096), 0, 0, 578.5, 578.5, "ddr", 0, 0, None),
    "softmax 512×1024 in LX, 1 core": (
        softmax_in_lx(512, 1024, cores=1, clone=False),
        0, 60.1, 181.8, 181.8, "ddr", 0, None, 5.6),
}  # fmt: skip


def printed_as(value, expected):
    """Return whether the value, rounded to the published digits, equals the published value."""
    digits = len(repr(expected).partition(".")[2])
    return round(value, digits) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("row", ROWS)
def test_worked_row(row):
    record, pt, sfp, ddr, total, bound_by, pt_share, sfp_share, ddr_share = ROWS[row]
    timing = estimate(record, CARD)
    assert timing.time_us == pytest.approx(total, rel=1e-3)
    assert microseconds(timing.busy.pt) == pytest.approx(pt, rel=2e-3)
    assert printed_as(microseconds(timing.busy.sfp), sfp)
    assert microseconds(timing.busy.ddr) == pytest.approx(ddr, rel=1e-3)
    assert timing.bound_by == bound_by
    shares = (
        (timing.utilisation.pt, pt_share),
        (timing.utilisation.sfp, sfp_share),
        (timing.utilisation.ddr, ddr_share),
    )
    for share, expected in shares:
        assert expected is None or printed_as(100 * share, expected)


def test_a_restickify_of_short_runs_has_the_extra_time_outside_the_overlap():
    timing = estimate(transpose(4096, 4096, 128), CARD)
    assert printed_as(microseconds(timing.restick_extra_ps), 942.8)
    achieved = (timing.ddr_read_bytes + timing.ddr_write_bytes) / (timing.time_ps / 1000)
    assert printed_as(achieved, 44)  # GB/s, the slowest transport measured upstream
    assert timing.ddr_requests == 4096 * 4096 * 2 // 128 + 4096 * 4096 * 2 // 4096


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # Bundle model, 4.3 and behaviours 32 and 34.
        (copy(16_777_216), 320.0),
        (program(Step(name="r", op="read", cores=CORES, ddr=(read(16_777_216),))), 111.8),
        (copy(8 * 2**20), 160),
        (matmul(4096, 4096, 4096), 1883.8),
        (matmul(32, 4096, 4096, row_splits=1, column_splits=32), 228.7),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_published_time(record, expected):
    assert printed_as(estimate(record, CARD).time_us, expected)


def test_few_rows_leave_the_matrix_unit_partly_empty():
    timing = estimate(matmul(32, 4096, 4096, row_splits=1, column_splits=32), CARD)
    assert printed_as(microseconds(timing.busy.pt), 18.8)


def products(rate, cores=CORES, **facts):
    """Return the time in us of a matmul of 2^20 MACs per core, and the time at this MAC/ns rate."""
    work = PtWork(macs=cores * 2**20, busiest_core_macs=2**20, rows=64, **facts)
    timing = estimate(program(Step(name="x", op="x", cores=cores, pt=(work,))), CARD)
    return timing.time_us, 2**20 / rate / 1000


@pytest.mark.parametrize(
    ("rate", "cores", "facts"),
    [
        (1140, 32, {}),
        (160, 32, {"kind": "batched", "batch": 4}),
        (160, 8, {"kind": "batched", "batch": 64}),
        (1140, 32, {"kind": "batched", "batch": 3}),
        (1140, 7, {"kind": "batched", "batch": 4}),
        (705, 32, {"kind": "projection", "batch": 4}),
        (470, 32, {"kind": "projection", "batch": 5}),
        (2 * 1140, 32, {"format": "fp8"}),
        (2 * 1140, 32, {"format": "int8"}),
        (4 * 1140, 32, {"format": "int4"}),
        (1140 / 4, 32, {"format": "fp32"}),
    ],
)
def test_matrix_rate_by_kind_and_format(rate, cores, facts):
    time, expected = products(rate, cores, **facts)
    assert time == pytest.approx(expected, rel=2e-3)


def test_output_tiling_keeps_the_array_full():
    work = PtWork(macs=2**20, busiest_core_macs=2**20, rows=1, output_tiled=True)
    timing = estimate(program(Step(name="x", op="x", cores=1, pt=(work,))), CARD)
    assert timing.time_us == pytest.approx(2**20 / 1140 / 1000, rel=2e-3)


def test_many_splits_of_one_dimension_cost_outside_the_overlap():
    # 4096 cubed on 32x1 cores: 393,216 elements above the free area, 32 = 8 * 2^2 splits.
    even = estimate(matmul(4096, 4096, 4096), CARD)
    tall = estimate(matmul(4096, 4096, 4096, row_splits=32, column_splits=1), CARD)
    wide = estimate(matmul(4096, 4096, 4096, row_splits=1, column_splits=32), CARD)
    assert even.split_shape_ps == 0
    assert microseconds(tall.split_shape_ps) == pytest.approx(393_216 * 2.62e-3 * 2, rel=1e-6)
    assert tall.split_shape_ps == wide.split_shape_ps
    assert tall.time_ps - even.time_ps == pytest.approx(tall.split_shape_ps, abs=1)


@pytest.mark.parametrize(
    ("run_bytes", "splits", "expected"), [(128, 8, 25.58), (128, 16, 25.58), (4096, 2, 1.14)]
)
def test_relayout_of_2_mib_on_8_cores(run_bytes, splits, expected):
    relayout = Relayout(bytes=2 * 2**20, run_bytes=run_bytes, splits=splits)
    step = Step(name="relayout", op="identity", cores=8, relayouts=(relayout,))
    timing = estimate(program(step), CARD)
    assert printed_as(timing.time_us, expected)
    assert timing.bound_by == "ring" and timing.relayout_ps == timing.time_ps


def test_a_relayout_is_never_hidden_and_never_beats_the_links():
    relayout = Relayout(bytes=2**20, run_bytes=4096, splits=2, busiest_link_bytes=2**20, hops=3)
    step = Step(name="r", op="identity", cores=8, relayouts=(relayout,))
    alone = estimate(program(step), CARD)
    assert alone.cycles == 2**20 // 128 + 3 * 4
    together = estimate(program(step, *copy(2**20).steps), CARD)
    hidden = together.time_ps - estimate(copy(2**20), CARD).time_ps - alone.time_ps
    assert abs(hidden) <= 1  # each time is rounded up to a picosecond


def test_partial_sums_stream_over_adjacent_links():
    # A K split over 4 cores, 8 chains, 64x64 partials in fp32: 128 cycles and 3 hops of 4.
    ring = RingTransfer.partial_sums(cores=4, output_bytes=4 * 64 * 64, chains=8)
    timing = estimate(program(Step(name="k", op="matmul", cores=32, ring=(ring,))), CARD)
    assert timing.cycles == 128 + 12
    assert timing.ring_exposed_ps == timing.time_ps == timing.busy.ring
    assert timing.ring_byte_hops == 3 * 8 * 4 * 64 * 64
    assert timing.utilisation.ring == pytest.approx(timing.ring_byte_hops / (64 * 128 * 140), 1e-3)


def test_hidden_ring_transfer_overlaps_other_units():
    ring = RingTransfer(busiest_link_bytes=2**20, hops=0, byte_hops=0, exposed=False)
    beside = Step(name="b", op="x", cores=32, ring=(ring,), sfp=(vector("copy", 2**20),))
    timing = estimate(program(beside), CARD)
    assert timing.time_ps == max(timing.busy.ring, timing.busy.sfp)
    assert timing.bound_by == "ring"


def test_scratchpad_bound_chain():
    step = Step(name="x", op="x", cores=32, lx=(scratchpad(384 * 32 * 100),))
    timing = estimate(program(step), CARD)
    assert (timing.cycles, timing.bound_by) == (100, "lx")
    assert timing.utilisation.lx == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    ("cost", "element_bytes", "cycles"),
    [
        ("simple", 2, 2),
        ("copy", 2, 2),
        ("divide", 2, 8),
        ("transcendental", 2, 8),
        ("reduce", 2, 2 + 6 * 3),
        ("exchange", 4, 3 * 4),
        ("simple", 4, 3),
        ("simple", 1, 2),
    ],
)
def test_vector_cycles_of_65_elements(cost, element_bytes, cycles):
    work = SfpWork(
        cost=cost,
        elements=65,
        busiest_core_elements=65,
        element_bytes=element_bytes,
        reduced_sticks=3 if cost == "reduce" else 0,
    )
    assert estimate(program(Step(name="x", op="x", cores=1, sfp=(work,))), CARD).cycles == cycles


def achieved_gigabytes_per_second(pattern, size=2**24):
    step = Step(
        name="x",
        op="x",
        cores=32,
        sfp=(vector("copy", size),),
        ddr=(read(size), write(size)),
        ddr_pattern=pattern,
    )
    return 2 * size * 1000 / estimate(program(step), CARD).busy.ddr


@pytest.mark.parametrize(
    ("kind", "facts", "rate"),
    [
        ("cross_row_reduction", {}, 113),
        ("row_reduction", {"rows": 1}, 150),
        ("row_reduction", {"rows": 3700}, 114 + 61 * 0.367879),
        ("cat_outer", {"rows": 1, "columns": 64}, 144),
        ("cat_outer", {"rows": 16, "columns": 1024}, 144 - 9.6 * 4 - 2.4 * 4),
        ("cat_outer", {"rows": 2**16, "columns": 2**16}, 44),
        ("cat_inner", {"rows": 16, "columns": 1024}, 110 - 0.8 * 4),
        ("transpose_outer", {"rows": 16, "columns": 512, "outer": 8}, 140 - 6.8 * 3 - 1.2 * 4),
        ("transpose_outer", {"rows": 16, "columns": 512, "outer": 2}, 114.8 - 26),
        ("transpose_outer", {"rows": 2**20, "columns": 2**20, "outer": 1}, 44),
        ("row_broadcast", {}, 118),
        ("column_broadcast", {"rows": 4096}, 118),
        ("row_broadcast", {"rows": 4096, "columns": 2048}, 183.5 - 2.8 * 11 - 2.6 * 12),
        ("column_broadcast", {"rows": 4096, "columns": 2048}, 162 - 1.8 * 11 - 2.2 * 12),
        ("row_broadcast", {"rows": 256, "columns": 1024}, -350 + 105 * 8 - 5.5 * 64 - 20),
        ("column_broadcast", {"rows": 256, "columns": 1024}, -270 + 70 * 8 - 3.5 * 64 + 30),
        ("row_broadcast", {"rows": 128, "columns": 8192}, 92),
        ("row_broadcast", {"rows": 512, "columns": 8192}, 92 + 10 * 2),
        ("row_broadcast", {"rows": 64, "columns": 8192}, 92 + 32),
        ("column_broadcast", {"rows": 64, "columns": 8192}, 98 + 15),
        ("column_broadcast", {"rows": 512, "columns": 8192}, 98 + 8 * 2),
    ],
)
def test_measured_rate_of_a_pattern(kind, facts, rate):
    achieved = achieved_gigabytes_per_second(DdrPattern(kind=kind, **facts))
    assert achieved == pytest.approx(rate, rel=1e-5)


def test_row_reduction_rate_applies_only_to_single_reductions():
    pattern = DdrPattern(kind="row_reduction", rows=10**6)
    reduction = Step(
        name="sum",
        op="sum",
        cores=32,
        sfp=(vector("reduce", 2**20),),
        ddr=(read(2**21),),
        ddr_pattern=pattern,
    )
    other = Step(name="exp", op="exp", cores=32, sfp=(vector("transcendental", 64),))
    assert estimate(program(reduction), CARD).time_us == pytest.approx(2**21 / 114e3, rel=1e-5)
    assert estimate(program(reduction, other), CARD).time_us == pytest.approx(2**21 / 150e3)


@pytest.mark.parametrize(
    ("run_bytes", "expected_ps"),
    # 1 MiB: by 4.7 ns per request for short runs, at 150 GB/s once a request takes longer to move.
    [(1, 8192 * 4700), (128, 8192 * 4700), (256, 4096 * 4700), (768, 6990507), (8192, 6990507)],
)
def test_short_runs_are_bound_by_their_requests(run_bytes, expected_ps):
    step = Step(name="x", op="x", cores=32, ddr=(read(2**20, run_bytes=run_bytes),))
    assert estimate(program(step), CARD).time_ps == expected_ps


@pytest.mark.parametrize(
    ("cores", "share"), [(1, 0.11), (2, 0.22), (8, 0.54), (16, 0.54), (24, 0.809080), (32, 1)]
)
def test_few_cores_use_part_of_the_bandwidth(cores, share):
    step = Step(name="x", op="x", cores=cores, ddr=(read(96 * 2**20, cores=cores),))
    assert estimate(program(step), CARD).time_us == pytest.approx(96 * 2**20 / 150e3 / share, 1e-5)


def test_an_input_that_several_steps_read_is_charged_once():
    steps = [
        Step(name=n, op=n, cores=32, ddr=(read(2**20, shared_input="x"), write(2**20)))
        for n in ("one", "two")
    ]
    timing = estimate(program(*steps), CARD)
    assert (timing.ddr_read_bytes, timing.ddr_write_bytes) == (2**20, 2**21)
    assert timing.time_us == pytest.approx(3 * 2**20 / 150e3 + 2**20 * 5.74e-6, rel=1e-6)


def test_a_multicast_read_is_fetched_once_for_all_cores():
    facts = {"distinct_bytes": 2**15, "busiest_core_bytes": 2**15}
    for multicast, fetched in ((True, 2**15), (False, 2**20)):
        step = Step(name="x", op="x", cores=32, ddr=(read(2**20, multicast=multicast, **facts),))
        assert estimate(program(step), CARD).ddr_read_bytes == fetched


def worked_table():
    head = "| program | PT µs | SFP µs | DDR µs | time µs | bound by | utilisation |"
    lines = [head, "|---|---:|---:|---:|---:|---|---|"]
    for name, (record, *_) in ROWS.items():
        timing = estimate(record, CARD)
        units = (timing.busy.pt, timing.busy.sfp, timing.busy.ddr, timing.time_ps)
        times = " | ".join(f"{microseconds(value):.1f}" for value in units)
        used = timing.utilisation
        shares = {"PT": used.pt, "SFP": used.sfp, "DDR": used.ddr}
        text = ", ".join(f"{unit} {share:.1%}" for unit, share in shares.items() if share)
        lines.append(f"| {name} | {times} | {timing.bound_by} | {text} |")
    return "\n".join(lines)


def test_the_page_shows_the_worked_rows_as_they_are():
    assert worked_table() in PAGE.read_text(), f"docs/timing.md must contain:\n{worked_table()}"

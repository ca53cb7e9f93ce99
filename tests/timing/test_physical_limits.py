"""Times satisfy the limits of the card, grow with the work, and are sums of their parts."""

import subprocess
import sys
from dataclasses import fields, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing_programs import CORES, STICK, copy, matmul_step, program, softmax_in_lx
from timing_strategies import programs

from torch_spyre.cards import load_card
from torch_spyre.timing import RingTransfer, Step, TimingRecordError, estimate, fingerprint

SPYRE = load_card("spyre")
CARDS = [SPYRE, load_card("ktir-cpu")]
many = settings(max_examples=80, deadline=None, derandomize=True, database=None)
every_card = pytest.mark.parametrize("card", CARDS, ids=lambda card: card.path.stem)


def peak_macs_per_ns(card):
    constants = card.timing
    fastest = max(1, constants.PT_MAC_FP8, constants.PT_MAC_INT8, constants.PT_MAC_INT4)
    return CORES * constants.PT_MAC_FP16 * fastest * constants.CLOCK_GHZ


@every_card
@many
@given(record=programs())
def test_no_program_beats_the_card(card, record):
    timing, constants = estimate(record, card), card.timing
    nanoseconds = Fraction(timing.time_ps, 1000)
    moved = timing.ddr_read_bytes + timing.ddr_write_bytes
    assert nanoseconds * constants.DDR_BW >= moved
    assert nanoseconds * peak_macs_per_ns(card) >= timing.macs
    lanes = CORES * constants.SFP_LANES_16 * constants.CLOCK_GHZ
    assert nanoseconds * lanes >= timing.sfp_lane_ops - 1
    ring = CORES * card.ring.directions * constants.RING_BYTES_CYCLE * constants.CLOCK_GHZ
    assert nanoseconds * ring >= timing.ring_byte_hops


@every_card
@many
@given(record=programs())
def test_utilizations_are_between_zero_and_one(card, record):
    timing = estimate(record, card)
    for group in (timing.utilisation, timing.busiest_core):
        for field in fields(group):
            assert 0 <= getattr(group, field.name) <= 1, field.name


@every_card
@many
@given(record=programs())
def test_parts_sum_to_the_total(card, record):
    timing = estimate(record, card)
    busy = {field.name: getattr(timing.busy, field.name) for field in fields(timing.busy)}
    assert busy[timing.bound_by] == max(busy.values())
    if card.timing.OVERLAP == "units":
        assert timing.time_ps >= max(busy.values())
    assert timing.time_ps <= sum(busy.values()) + len(busy)
    assert sum(span.duration_ps for span in timing.steps) == (timing.time_ps if record.steps else 0)
    ends = [0, *(span.start_ps + span.duration_ps for span in timing.steps)]
    assert [span.start_ps for span in timing.steps] == ends[:-1]


def works(step):
    """Return the amounts of a step: the field, the index, and the increment."""
    for i, _ in enumerate(step.pt):
        yield "pt", i, {"macs": 1, "busiest_core_macs": 1}
    for i, _ in enumerate(step.sfp):
        yield "sfp", i, {"elements": 1, "busiest_core_elements": 1}
        yield "sfp", i, {"reduced_sticks": 1}
    for i, _ in enumerate(step.ddr):
        names = ("bytes", "distinct_bytes", "busiest_core_bytes")
        yield "ddr", i, dict.fromkeys(names, STICK)
    for i, _ in enumerate(step.lx):
        yield "lx", i, {"bytes": 1, "busiest_core_bytes": 1}
    for i, _ in enumerate(step.ring):
        yield "ring", i, {"busiest_link_bytes": 1, "byte_hops": 1}
    for i, _ in enumerate(step.relayouts):
        yield "relayouts", i, {"bytes": 1}
        yield "relayouts", i, {"busiest_link_bytes": 1, "byte_hops": 1}


@st.composite
def programs_with_more(draw):
    """A program, and the same with more of one amount or more trips of one step."""
    record = draw(programs(min_steps=1))
    index = draw(st.integers(0, len(record.steps) - 1))
    step = record.steps[index]
    change = draw(st.sampled_from([None, *works(step)]))
    more = draw(st.sampled_from([1, 7, 1000, 2**20]))
    if change is None:
        larger = replace(step, trips=step.trips + more)
    else:
        name, place, amounts = change
        items = list(getattr(step, name))
        raised = {key: getattr(items[place], key) + unit * more for key, unit in amounts.items()}
        items[place] = replace(items[place], **raised)
        larger = replace(step, **{name: tuple(items)})
    return record, replace(
        record, steps=(*record.steps[:index], larger, *record.steps[index + 1 :])
    )


@every_card
@settings(many, max_examples=200)
@given(pair=programs_with_more())
def test_more_work_never_takes_less_time(card, pair):
    less, more = (estimate(record, card) for record in pair)
    assert less.time_ps <= more.time_ps


@many
@given(record=programs())
def test_the_same_record_has_the_same_timing_and_fingerprint(record):
    assert estimate(record, SPYRE) == estimate(record, SPYRE)
    assert fingerprint(record, SPYRE) == fingerprint(record, SPYRE)
    assert fingerprint(record, SPYRE) != fingerprint(record, CARDS[1])


def test_timing_is_the_same_under_another_hash_seed():
    code = (
        "import sys; sys.path.insert(0, 'tests/helpers')\n"
        "from timing_programs import softmax_without_lx\n"
        "from torch_spyre.timing import estimate, fingerprint\n"
        "record = softmax_without_lx(512, 1024); print(estimate(record), fingerprint(record))"
    )
    root = SPYRE.path.parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_half_the_bandwidth_doubles_the_time_of_the_bytes():
    halved = SPYRE.timing.model_copy(update={"DDR_BW": SPYRE.timing.DDR_BW / 2})
    slow = estimate(copy(2**24), SPYRE.model_copy(update={"timing": halved}))
    fast = estimate(copy(2**24), SPYRE)
    bytes_ps = Fraction(2 * 2**24 * 1000, 150)
    assert slow.time_ps - fast.time_ps == pytest.approx(float(bytes_ps), abs=1)


def test_keeping_values_in_the_scratchpad_never_costs_time():
    kept = softmax_in_lx(512, 1024)
    spilled = replace(kept, steps=(*kept.steps, *copy(2**20).steps))
    assert estimate(kept, SPYRE).time_ps < estimate(spilled, SPYRE).time_ps


def test_an_empty_program_takes_no_time():
    timing = estimate(program(), SPYRE)
    assert (timing.time_ps, timing.cycles, timing.steps) == (0, 0, ())
    assert timing.bound_by in ("pt", "sfp", "ddr", "lx", "ring")


def test_fixed_costs_of_steps_and_iterations():
    constants = SPYRE.timing.model_copy(
        update={"STEP_NS": Fraction(100), "LOOP_ITER_NS": Fraction(3)}
    )
    card = SPYRE.model_copy(update={"timing": constants})
    steps = [Step(name="s", op="s", cores=1, trips=trips) for trips in (0, 1, 5)]
    timing = estimate(program(*steps), card)
    assert timing.time_ps == (2 * 100 + 5 * 3) * 1000
    assert sum(span.duration_ps for span in timing.steps) == timing.time_ps


CROWDED = RingTransfer(busiest_link_bytes=10, hops=1, byte_hops=641)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (
            program(lx_peak_bytes=2**21 + 128),
            "2097280 bytes of LX in a core, and there are 2097152",
        ),
        (program(Step(name="x", op="x", cores=33)), "step x needs 33 cores, and there are 32"),
        (
            program(Step(name="x", op="x", cores=2, ring=(CROWDED,))),
            "step x has 641 byte hops on 64 links, 10 bytes on the busiest",
        ),
    ],
)
def test_program_that_exceeds_the_card_is_rejected(record, problem):
    with pytest.raises(TimingRecordError, match=problem):
        estimate(record, SPYRE)


# --- Granite-3.3-8B: figures nobody may beat ------------------------------------------------------

LAYERS, HIDDEN, HEAD_GROUPS_WIDTH, FEED_FORWARD, VOCABULARY = 40, 4096, 1024, 12800, 49159
LAYER_MATRICES = {
    "q": (HIDDEN, HIDDEN),
    "k": (HIDDEN, HEAD_GROUPS_WIDTH),
    "v": (HIDDEN, HEAD_GROUPS_WIDTH),
    "o": (HIDDEN, HIDDEN),
    "gate": (HIDDEN, FEED_FORWARD),
    "up": (HIDDEN, FEED_FORWARD),
    "down": (FEED_FORWARD, HIDDEN),
}


def granite(tokens):
    """Return a program of all matmuls with weights; attention and norms would only add time."""
    row_splits, column_splits = (1, 32) if tokens == 1 else (8, 4)
    splits = {"row_splits": row_splits, "column_splits": column_splits}
    layer = [
        replace(matmul_step(tokens, k, n, name=name, **splits), trips=LAYERS)
        for name, (k, n) in LAYER_MATRICES.items()
    ]
    # The vocabulary padded to whole sticks and cores.
    head = matmul_step(tokens, HIDDEN, -(-VOCABULARY // 2048) * 2048, name="head", **splits)
    return program(*layer, head, name=f"granite-3.3-8b, {tokens} tokens")


def weights():
    per_layer = sum(k * n for k, n in LAYER_MATRICES.values())
    return LAYERS * per_layer + VOCABULARY * HIDDEN


def test_granite_decode_takes_at_least_109_ms_a_token():
    timing = estimate(granite(1), SPYRE)
    assert round(2 * weights() / 1e9, 1) == 16.3
    at_sustained, at_peak = (2 * weights() / rate / 1e6 for rate in (150, 204.8))
    assert (round(at_sustained), round(at_peak)) == (109, 80)
    assert timing.bound_by == "ddr"
    assert timing.ddr_read_bytes >= 2 * weights()
    assert at_sustained <= timing.time_us / 1000 <= 1.02 * at_sustained


def test_granite_prefill_of_512_tokens_takes_at_least_115_ms():
    timing = estimate(granite(512), SPYRE)
    at_73_tflops = 2 * weights() * 512 / 73e12 * 1000
    assert round(at_73_tflops) == 115
    assert timing.time_ps >= timing.busy.pt
    assert at_73_tflops <= timing.busy.pt / 1e9 <= 1.01 * at_73_tflops

"""Tests of the splits of known ops, computed by hand: fp16 on 32 cores unless stated otherwise."""

from math import prod

import pytest
from division_specs import (
    C,
    batch_matmul,
    column_sum,
    matmul,
    op_spec,
    pointwise,
    row_sum,
    tensor,
)

from torch_spyre._inductor.work_division import (
    EARLIER,
    LATER,
    Granularity,
    Problem,
    divide,
    span_bytes,
    stick_adjusted,
)
from torch_spyre._inductor.work_division.matmul_cost import (
    Sizes,
    Split,
    card_rates,
    cheapest_split,
)
from torch_spyre._inductor.work_division.rules import legal_splits
from torch_spyre._inductor.work_division.span_reduction import reduce_spans
from torch_spyre.cards import load_card
from torch_spyre.errors import SpanLimitError

CARD = load_card("spyre")

KIB, MIB = 2**10, 2**20
C0, C1, C2, C3 = C[:4]


def named(splits):
    return {str(symbol): split for symbol, split in splits.items() if split > 1}


def spans(spec, splits):
    return [span_bytes(arg, spec.sizes, splits) for arg in spec.args]


def span_splits(spec):
    """Return the splits of the first pass, which satisfy the span limit."""
    problem = Problem(spec, CARD, 32)
    return named(reduce_spans(problem, legal_splits(problem)))


# row: spec, adjusted sizes, splits of the first pass, final splits, span of the first input
POINTWISE = {
    1: (pointwise("abs", 256, 128, 512), [256, 128, 8], {}, {"c0": 32}, 32 * MIB),
    2: (pointwise("add", 1024, 4096), [1024, 64], {}, {"c0": 32}, 8 * MIB),
    3: (pointwise("add", 7, 4096), [7, 64], {}, {"c1": 32}, 1792),
    4: (pointwise("add", 100, 640), [100, 10], {}, {"c0": 25}, 128_000),
    5: (pointwise("add", 12, 384), [12, 6], {}, {"c0": 12, "c1": 2}, 4608),
    6: (pointwise("add", 1, 50000), [782], {}, {"c1": 23}, 4352),
    7: (pointwise("neg", 2, 32, 4096, 128), [2, 32, 4096, 2], {}, {"c2": 32}, 64 * MIB),
    11: (pointwise("exp", 65536, 8192), [65536, 128], {"c1": 4}, {"c0": 8, "c1": 4}, 256 * MIB),
    12: (pointwise("exp", 4194304, 64), [4194304, 1], {"c0": 2}, {"c0": 32}, 16 * MIB),
    13: (
        pointwise("exp", 8, 32, 16384, 128),
        [8, 32, 16384, 2],
        {"c1": 4},
        {"c1": 4, "c2": 8},
        256 * MIB,
    ),
    14: (pointwise("exp", 100003, 4096), [100003, 64], {"c1": 4}, {"c1": 32}, 2 * 100003 * 128),
}
REDUCTIONS = {
    8: (row_sum(512, 4096), [512, 64], {}, {"c0": 32}, 4 * MIB),
    9: (row_sum(3, 4096), [3, 64], {}, {"c0": 3, "c1": 8}, 3072),
    10: (column_sum(4096, 128), [2, 4096], {}, {"c0": 2, "c1": 16}, 32 * KIB),
    17: (column_sum(2097152, 256), [4, 2097152], {"c0": 4}, {"c0": 4, "c1": 8}, 32 * MIB),
}


@pytest.mark.parametrize("row", [*POINTWISE, *REDUCTIONS])
def test_splits_of_pointwise_ops_and_reductions(row):
    spec, adjusted, first, final, span = (POINTWISE | REDUCTIONS)[row]
    assert list(stick_adjusted(spec).values()) == adjusted
    assert span_splits(spec) == first
    splits = divide(spec)
    assert named(splits) == final
    assert list(splits) == list(spec.iteration_space)
    assert spans(spec, splits)[0] == span


@pytest.mark.parametrize(
    ("row", "spec", "first", "tried", "overflow"),
    [
        (15, pointwise("add", 32, 8192, 17408), {"c1": 32}, "c1=32", "272.0 MiB"),
        (16, pointwise("add", 32, 8193, 1740), {"c1": 3}, "c0=8, c1=3", "298.7 MiB"),
    ],
)
def test_exceeding_the_span_limit_with_every_split_is_an_error(row, spec, first, tried, overflow):
    assert span_splits(spec) == first
    with pytest.raises(SpanLimitError) as caught:
        divide(spec)
    for text in (f"Splits: {tried};", overflow, "256.0 MiB", str(list(spec.output.device_size))):
        assert text in str(caught.value)


# row: spec, model, first pass, final splits, cost of the cheapest (None: not applicable), spans
MATMULS = [
    (18, matmul(8192, 32768, 4096), LATER, {"c2": 2}, {"c0": 16, "c2": 2}, None, [256, 256, 64]),
    (18, matmul(8192, 32768, 4096), EARLIER, {"c2": 2}, {"c0": 16, "c2": 2}, None, [256, 256, 64]),
    (
        19,
        matmul(4096, 4096, 128256),
        LATER,
        {"c1": 4},
        {"c0": 8, "c1": 4},
        None,
        [32, 250.5, 250.5],
    ),
    (20, matmul(1, 4096, 4096), LATER, {}, {"c1": 32}, None, [None, 1, None]),
    (21, matmul(2048, 4096, 4096), EARLIER, {}, {"c0": 4, "c1": 8}, 1026.7, [16, 4, 2]),
    (21, matmul(2048, 4096, 4096), LATER, {}, {"c0": 4, "c1": 8}, None, [16, 4, 2]),
    (22, matmul(512, 4096, 11008), EARLIER, {}, {"c0": 8, "c1": 4}, 985.5, [4, 21.5, 2.6875]),
    (22, matmul(512, 4096, 11008), LATER, {}, {"c0": 8, "c1": 4}, None, [4, 21.5, 2.6875]),
    (23, matmul(8, 1024, 1024), EARLIER, {}, {"c0": 4, "c1": 8}, 160.9, [1 / 64, 1 / 4, None]),
    (23, matmul(8, 1024, 1024), LATER, {}, {"c1": 8, "c2": 4}, 64.0, [None, 1 / 4, None]),
    (24, matmul(128, 4096, 4096), EARLIER, {}, {"c0": 32}, None, [None, 32, None]),
    (24, matmul(128, 4096, 4096), LATER, {}, {"c0": 4, "c1": 8}, None, [None, 4, None]),
    (25, matmul(256, 8192, 192), EARLIER, {}, {"c0": 32}, None, [4, None, None]),
    (25, matmul(256, 8192, 192), LATER, {}, {"c0": 8, "c2": 4}, None, [1, None, None]),
    (26, matmul(64, 512, 32), EARLIER, {}, {"c0": 32}, None, [1 / 16, None, None]),
    (26, matmul(64, 512, 32), LATER, {}, {"c0": 32}, None, [1 / 16, None, None]),
    (27, batch_matmul(32, 512, 128, 512), EARLIER, {}, {"c1": 4, "c2": 8}, None, [1, None, 4]),
    (27, batch_matmul(32, 512, 128, 512), LATER, {}, {"c1": 16, "c2": 2}, None, [None] * 3),
]


@pytest.mark.parametrize(
    ("row", "spec", "model", "first", "final", "cost", "expected_spans"),
    MATMULS,
    ids=[f"{row[0]}-{row[2].name}" for row in MATMULS],
)
def test_splits_of_matmuls(row, spec, model, first, final, cost, expected_spans):
    assert span_splits(spec) == first
    splits = divide(spec, cost_model=model)
    assert named(splits) == final
    for actual, expected in zip(spans(spec, splits), expected_spans, strict=True):
        if expected is not None:
            assert actual == expected * MIB
    if cost is not None:
        problem = Problem(spec, CARD, 32)
        cheapest = cheapest_split(problem, legal_splits(problem), model)
        assert round(cheapest[1], 1) == cost


@pytest.mark.parametrize(
    ("spec", "splits"),
    [(matmul(128, 4096, 4096), {"c0": 2, "c1": 8}), (matmul(256, 8192, 192), None)],
    ids=["24", "25"],
)
def test_the_earlier_cost_model_is_overruled_if_it_leaves_cores_idle(spec, splits):
    problem = Problem(spec, CARD, 32)
    cheapest, _ = cheapest_split(problem, legal_splits(problem), EARLIER)
    used = cheapest[C0] * cheapest[C1] * cheapest[C2]
    assert used == (16 if splits else 24)
    assert splits is None or named(cheapest) == splits
    assert named(divide(spec, cost_model=EARLIER)) == {"c0": 32}


@pytest.mark.parametrize("spec", [matmul(1, 4096, 4096), matmul(64, 512, 32), matmul(1, 512, 32)])
def test_matmuls_of_one_row_or_partial_sticks_have_no_cost(spec):
    problem = Problem(spec, CARD, 32)
    assert cheapest_split(problem, legal_splits(problem)) is None


def test_the_earlier_cost_is_compute_plus_memory_and_ties_split_fewer_rows():
    """In row 21, two splits have the same cost."""
    sizes = Sizes(1, 2048, 4096, 4096, is_right_shared=True)
    compute = 2048 * 4096 * 4096 / 32 / 1.536e6
    memory = 67_108_864 / 204_800
    assert (round(compute, 2), round(memory, 2)) == (699.05, 327.68)
    for split in (Split(1, 4, 8, 1), Split(1, 8, 4, 1)):
        assert EARLIER.cost(sizes, split, card_rates(CARD, 32)) == pytest.approx(compute + memory)
    assert named(divide(matmul(2048, 4096, 4096), cost_model=EARLIER)) == {"c0": 4, "c1": 8}


def test_the_number_of_cores_used():
    for row, used in {4: 25, 5: 24, 6: 23, 9: 24, 11: 32, 13: 32}.items():
        spec = (POINTWISE | REDUCTIONS)[row][0]
        assert prod(divide(spec).values()) == used, row


def test_a_batch_with_one_right_matrix_has_a_cost_only_in_the_later_model():
    spec = batch_matmul(4, 512, 1024, 1024, shared=True)
    problem = Problem(spec, CARD, 32)
    legal = legal_splits(problem)
    assert cheapest_split(problem, legal, EARLIER) is None
    splits, _ = cheapest_split(problem, legal, LATER)
    assert divide(spec) == splits
    # Rows are the dim that is adjacent in the output: c1, not c0.
    assert splits[C1] > 1
    assert splits[C0] * splits[C1] * splits[C2] * splits[C3] == 32


def test_row_28_splits_of_a_dynamic_dim_divide_its_granularity():
    spec = pointwise("add", 1024, 128)
    splits = divide(spec, granularity={C0: Granularity(max_size=1024, granularity=64)})
    assert splits == {C0: 32, C1: 1}
    splits = divide(spec, granularity={C0: Granularity(max_size=1024, granularity=16)})
    assert splits == {C0: 16, C1: 2}


def test_row_29_a_hint_is_used_unchanged():
    spec = matmul(128, 256, 64)
    assert list(stick_adjusted(spec).values()) == [128, 1, 4]
    splits = divide(spec, cores=8, hint={C0: 2, C2: 4})
    assert splits == {C0: 2, C1: 1, C2: 4}
    assert spans(spec, splits)[0] == 8 * KIB


def test_splits_with_fewer_cores():
    assert named(divide(pointwise("abs", 256, 128, 512), cores=16)) == {"c0": 16}
    assert named(divide(pointwise("abs", 256, 128, 512), cores=1)) == {}


def test_the_span_is_the_address_range_of_a_slice():
    spec = matmul(8192, 32768, 4096)
    left = spec.args[0]
    assert span_bytes(left, spec.sizes, {C0: 16, C2: 2}) == 256 * MIB
    assert span_bytes(left, spec.sizes, {C0: 32}) == (511 * 8192 + 8192) * 64 * 2


def test_stick_adjusted_sizes_use_the_largest_stick_of_any_tensor():
    spec = op_spec(
        "to_dtype",
        {C0: 8, C1: 4096},
        [tensor((8, 4096), (C0, C1), elements=64)],
        tensor((8, 4096), (C0, C1), elements=32),
    )
    assert stick_adjusted(spec) == {C0: 8, C1: 64}


def test_columns_of_one_stick_are_never_split():
    for columns in (32, 64):
        assert divide(pointwise("add", 3, columns)) == {C0: 3, C1: 1}
        assert divide(column_sum(4096, columns)) == {C0: 1, C1: 32}

"""Tests of work division hints, dynamic sizes and core counts."""

import logging

import pytest
from division_specs import C, matmul, op_spec, pointwise, tensor

from torch_spyre import knobs
from torch_spyre._inductor.work_division import Granularity, divide, granularity_of
from torch_spyre.errors import (
    GranularityError,
    InvalidCoresError,
    SpanLimitError,
    WorkDivisionError,
    WorkDivisionHintError,
)

C0, C1, C2, C3 = C[:4]


def test_a_hint_is_logged_and_used_without_further_splits(caplog):
    with caplog.at_level(logging.DEBUG, "torch_spyre.inductor.passes"):
        assert divide(pointwise("abs", 128, 64), hint={C0: 4}) == {C0: 4, C1: 1}
    assert "user-hint c0=4" in caplog.text


@pytest.mark.parametrize("hint", [None, {}])
def test_without_a_hint_the_planner_splits_the_op(hint):
    assert divide(pointwise("abs", 128, 64), hint=hint) == {C0: 32, C1: 1}


def test_hints_can_be_ignored(caplog):
    with (
        knobs.override(SPYRE_INDUCTOR_IGNORE_HINTS="1"),
        caplog.at_level(logging.DEBUG, "torch_spyre.inductor.passes"),
    ):
        assert divide(pointwise("abs", 128, 64), hint={C0: 4}) == {C0: 32, C1: 1}
    assert "user-hint" not in caplog.text


def two_reductions():
    source = tensor((4, 64, 128), (C1, C2, C0))
    sizes = {C0: 128, C1: 4, C2: 64}
    return op_spec("sum", sizes, [source], tensor((128,), (C0,)), is_reduction=True)


@pytest.mark.parametrize(
    ("spec", "cores", "hint", "message"),
    [
        (pointwise("add", 128, 64), 32, {C0: True}, "c0 must be an integer"),
        (pointwise("add", 128, 64), 32, {C0: 2.0}, "c0 must be an integer"),
        (pointwise("add", 128, 64), 32, {C0: 0}, "c0 must be positive"),
        (pointwise("add", 128, 64), 32, {C0: -2}, "c0 must be positive"),
        (pointwise("add", 128, 64), 32, {C3: 2}, "c3 is not one of its symbols: c0, c1"),
        (two_reductions(), 32, {C1: 2, C2: 2}, "2 reduction dimensions"),
        (pointwise("add", 8, 8, 256), 4, {C0: 2, C1: 2, C2: 2}, "8 cores, which exceeds SENCORES"),
        (pointwise("add", 130, 64), 32, {C0: 4}, "size 130 is 130, not evenly divisible by 4"),
        (pointwise("add", 2, 192), 32, {C1: 2}, "size 192 is 3 sticks, not evenly divisible by 2"),
        (
            pointwise("add", 128, 64, op_info={"unsplittable": ["c0"]}),
            32,
            {C0: 4},
            "cannot be split by 4 (limited by unsplittable); legal splits: 1",
        ),
    ],
)
def test_an_invalid_hint_is_an_error(spec, cores, hint, message):
    with pytest.raises(WorkDivisionHintError) as caught:
        divide(spec, cores=cores, hint=hint)
    assert message in str(caught.value)
    assert f"work_div hint for {spec.op}" in str(caught.value)


def test_errors_are_reported_in_the_documented_order():
    with pytest.raises(WorkDivisionHintError, match="must be an integer"):
        divide(pointwise("add", 128, 64), hint={C0: 0, C1: "2"})
    with pytest.raises(WorkDivisionHintError, match="exceeds SENCORES"):
        divide(pointwise("add", 130, 64), hint={C0: 64})


def test_a_hint_that_exceeds_the_span_limit_is_an_error():
    with pytest.raises(SpanLimitError, match="c0=32"):
        divide(pointwise("exp", 65536, 8192), hint={C0: 32})
    assert divide(pointwise("exp", 65536, 8192), hint={C1: 8}) == {C0: 1, C1: 8}


@pytest.mark.parametrize("cores", [0, -1, 33, 64, True])
def test_an_invalid_core_count_is_an_error(cores):
    with pytest.raises(InvalidCoresError, match=f"invalid SENCORES value {cores}"):
        divide(pointwise("add", 128, 64), cores=cores)


def test_sencores_is_the_default_core_count():
    with knobs.override(SENCORES="16"):
        assert divide(pointwise("abs", 256, 128, 512))[C0] == 16
        assert divide(pointwise("abs", 256, 128, 512), cores=8)[C0] == 8
    with (
        knobs.override(SENCORES="64"),
        pytest.raises(InvalidCoresError, match="invalid SENCORES value 64"),
    ):
        divide(pointwise("add", 128, 64))


@pytest.mark.parametrize(
    ("spec", "symbol", "message"),
    [
        (pointwise("add", 128, 512), C1, "symbolic stick dim c1 is not supported yet"),
        (matmul(128, 512, 512), C0, "symbolic matmul dim c0 is not supported yet"),
        (pointwise("add", 128, 512), C3, "c3 is marked dynamic, but is not"),
    ],
)
def test_unsupported_dynamic_dims_are_an_error(spec, symbol, message):
    with pytest.raises(WorkDivisionError, match=message):
        divide(spec, granularity={symbol: Granularity(512, 64)})


def test_spans_are_those_of_the_maximum_size():
    spec = pointwise("exp", 64, 64)
    dynamic = {C0: Granularity(4194304, 64)}
    assert divide(spec, granularity=dynamic) == {C0: 32, C1: 1}
    with pytest.raises(SpanLimitError, match="512.0 MiB"):
        divide(spec, granularity={C0: Granularity(4194304, 1)})
    inner = pointwise("exp", 64, 4096)  # device size [64, 64, 64]: the dynamic dim is not outermost
    assert divide(inner, granularity={C0: Granularity(65536, 1)}) == {C0: 1, C1: 32}
    with pytest.raises(SpanLimitError, match="512.0 MiB"):
        divide(inner, granularity={C0: Granularity(65536, 1)}, cores=1)


def test_dynamic_dims_are_ranked_by_their_maximum_size():
    spec = pointwise("add", 64, 128, 64)
    assert divide(spec, granularity={C0: Granularity(1024, 8)}) == {C0: 8, C1: 4, C2: 1}


@pytest.mark.parametrize(("min_size", "expected"), [(64, 64), (1024, 1024), (32, 32), (128, 128)])
def test_the_minimum_size_is_the_granularity(min_size, expected):
    assert granularity_of(1024, min_size) == Granularity(1024, expected)


@pytest.mark.parametrize(
    ("max_size", "expected"), [(512, 16), (1024, 32), (64, 4), (6, 6), (7, 7), (3, 3), (1, 1)]
)
@pytest.mark.parametrize("min_size", [None, 2])
def test_the_default_granularity_limits_the_number_of_buckets(max_size, min_size, expected):
    with pytest.warns(UserWarning, match=f"must be a multiple of {expected}"):
        assert granularity_of(max_size, min_size) == Granularity(max_size, expected)


def test_the_default_granularity_follows_knobs_and_arguments():
    with knobs.override(MAX_BUCKETS="8", MIN_DEFAULT_GRANULARITY="1"), pytest.warns(UserWarning):
        assert granularity_of(512).granularity == 64
    with pytest.warns(UserWarning):
        assert granularity_of(16, max_buckets=16, min_default=1).granularity == 1


@pytest.mark.parametrize(
    ("max_size", "min_size", "message"),
    [
        (512, 100, "100 does not divide it"),
        (1024, 16, "allows 64 sizes, but MAX_BUCKETS=32"),
        (0, None, "must be positive"),
        (512, 1024, "1024 does not divide it"),
    ],
)
def test_inconsistent_sizes_are_an_error(max_size, min_size, message):
    with pytest.raises(GranularityError, match=message):
        granularity_of(max_size, min_size)


def test_a_granularity_must_divide_the_maximum_size():
    with pytest.raises(GranularityError, match="not a multiple of its granularity 3"):
        Granularity(512, 3)

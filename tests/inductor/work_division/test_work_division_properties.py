"""Property tests of work division."""

from itertools import product
from math import prod

import pytest
import sympy
from division_specs import (
    C,
    batch_matmul,
    column_sum,
    matmul,
    op_spec,
    pointwise,
    row_sum,
    tensor,
    with_splits,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.work_division import (
    EARLIER,
    LATER,
    Granularity,
    Problem,
    core_mapping,
    divide,
    span_bytes,
    stick_adjusted,
)
from torch_spyre._inductor.work_division.arithmetic import divisors
from torch_spyre._inductor.work_division.expressions import (
    block_sizes,
    bounds,
    overlapping_symbols,
)
from torch_spyre.cards import load_card
from torch_spyre.errors import SpanLimitError

CARD = load_card("spyre")
# Sizes with few divisors, many, and on both sides of a stick.
size = st.one_of(
    st.sampled_from([1, 2, 3, 7, 12, 31, 63, 64, 65, 100, 127, 128, 192, 1000, 4096, 4097]),
    st.integers(1, 300),
)
dim = size.filter(lambda value: value > 1)
huge = st.sampled_from([4096, 8193, 16384, 65536, 100003, 128256])


def restickify(rows, columns):
    source = tensor((rows, columns), (C[0], C[1]), stick_dim=0)
    result = tensor((rows, columns), (C[0], C[1]))
    return op_spec("ReStickifyOpHBM", {C[0]: rows, C[1]: columns}, [source], result)


specs = st.one_of(
    st.lists(size, min_size=1, max_size=4).map(lambda shape: pointwise("add", *shape)),
    st.builds(lambda a, b, e: pointwise("add", a, b, elements=e), dim, dim, st.sampled_from([32])),
    st.builds(row_sum, dim, dim),
    st.builds(column_sum, dim, dim),
    st.builds(matmul, size, dim, dim),
    st.builds(batch_matmul, dim, dim, dim, dim, shared=st.booleans()),
    st.builds(restickify, dim, dim),
    st.builds(lambda a, b: pointwise("exp", a, b), huge, huge),
    st.builds(lambda a, b, c: pointwise("exp", a, b, c), dim, huge, dim),
    st.builds(column_sum, huge, huge),
    st.builds(matmul, huge, huge, huge),
)
cores = st.integers(1, 32)


def splits_or_none(spec, cores, **options):
    """Return the splits, or None if no split satisfies the span limit with these cores."""
    try:
        return divide(spec, cores=cores, **options)
    except SpanLimitError as error:
        assert spec.op in str(error)
        assert "256.0 MiB" in str(error)
        return None


@settings(max_examples=200, deadline=None)
@given(specs, cores, st.sampled_from([EARLIER, LATER]), st.sampled_from([0.0, 0.5]))
def test_splits_divide_sticks_and_satisfy_core_and_span_limits(spec, cores, model, idle_share):
    options = {"cost_model": model, "idle_share_before_reductions": idle_share}
    splits = splits_or_none(spec, cores, **options)
    assume(splits is not None)
    assert list(splits) == list(spec.iteration_space)
    for symbol, units in stick_adjusted(spec).items():
        assert units % splits[symbol] == 0
    assert prod(splits.values()) <= cores
    for arg in spec.args:
        assert span_bytes(arg, spec.sizes, splits) <= CARD.memory.span_limit_bytes
    assert sum(splits[symbol] > 1 for symbol in Problem(spec, CARD, cores).reduction_dims) <= 1
    assert splits_or_none(spec, cores, **options) == splits
    validate([with_splits(spec, splits)], cores)


@settings(max_examples=100, deadline=None)
@given(specs, cores)
def test_the_splits_of_a_pointwise_op_cannot_be_increased(spec, cores):
    assume(not spec.is_reduction and spec.op != "ReStickifyOpHBM")
    splits = splits_or_none(spec, cores)
    assume(splits is not None)
    used = prod(splits.values())
    for symbol, units in stick_adjusted(spec).items():
        other_cores = used // splits[symbol]
        candidates = [split for split in divisors(units) if split * other_cores <= cores]
        assert max(candidates) == splits[symbol]


@settings(max_examples=100, deadline=None)
@given(specs, cores, st.booleans())
def test_the_slices_of_the_cores_partition_the_iteration_space(spec, cores, k_fast):
    splits = splits_or_none(spec, cores)
    assume(splits is not None)
    mapping = core_mapping(with_splits(spec, splits), k_fast=k_fast)
    assert mapping.cores == prod(splits.values())
    slices = [tuple(mapping.slices(core).values()) for core in range(mapping.cores)]
    assert len(set(slices)) == len(slices)
    assert set(slices) == set(product(*(range(split) for split in splits.values())))


def flat_write(rows, columns, pitch, offset):
    """Return a copy whose row c0 starts at element `pitch * c0 + offset` of a one-dim output."""
    end = pitch * rows + columns + offset
    source = tensor((rows, columns), (C[0], C[1]))
    result = tensor((end,), (pitch * C[0] + C[1] + offset,))
    return op_spec("identity", {C[0]: rows, C[1]: columns}, [source], result)


small = st.sampled_from([2, 3, 4, 8, 16, 30, 64, 100, 128, 192])
copies_and_reductions = st.one_of(
    st.builds(
        lambda rows, columns, gap, offset: flat_write(rows, columns, columns + gap, offset),
        st.sampled_from([2, 4, 8, 16]),
        small,
        st.sampled_from([0, 0, 28, 64]),
        st.sampled_from([0, 0, 5, 64]),
    ),
    st.builds(lambda a, b: pointwise("add", a, b), small, small),
    st.builds(
        lambda a, b, c: pointwise("add", a, b, c), st.integers(2, 6), st.integers(2, 6), small
    ),
    st.builds(row_sum, small, small),
    st.builds(restickify, small, small),
)


@settings(max_examples=80, deadline=None)
@given(copies_and_reductions, cores)
def test_no_stick_is_written_by_two_cores_except_in_reductions(spec, cores):
    splits = splits_or_none(spec, cores)
    symbols = list(spec.iteration_space)
    problem = Problem(spec, CARD, cores)
    mapping = core_mapping(with_splits(spec, splits))
    stick_coordinates = sympy.lambdify(
        symbols, list(spec.output.device_coordinates[:-1]), modules="math"
    )
    owner = {}
    for point in product(*(range(problem.sizes[symbol]) for symbol in symbols)):
        slice_indices = [
            index // problem.slice_size(symbol, splits[symbol])
            for symbol, index in zip(symbols, point, strict=True)
        ]
        core = tuple(
            0 if symbol in problem.reduction_dims else slice_index
            for symbol, slice_index in zip(symbols, slice_indices, strict=True)
        )
        assert owner.setdefault(tuple(stick_coordinates(*point)), core) == core
    assert len(set(owner.values())) <= mapping.cores


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), dim, cores)
def test_splits_of_a_dynamic_dim_divide_all_of_its_sizes(step, buckets, columns, cores):
    spec = op_spec(
        "add",
        {C[0]: step, C[1]: columns},
        [tensor((step, columns), (C[0], C[1]))],
        tensor((step * buckets, columns), (C[0], C[1])),
    )
    splits = divide(spec, cores=cores, granularity={C[0]: Granularity(step * buckets, step)})
    assert all(step * count % splits[C[0]] == 0 for count in range(1, buckets + 1))


@settings(max_examples=60, deadline=None)
@given(dim, dim, cores, st.data())
def test_a_legal_hint_is_used(rows, columns, cores, data):
    spec = pointwise("add", rows, columns)
    units = stick_adjusted(spec)
    first = data.draw(st.sampled_from(divisors(units[C[0]], cores)))
    second = data.draw(st.sampled_from(divisors(units[C[1]], cores // first)))
    hint = {C[0]: first, C[1]: second}
    assert divide(spec, cores=cores, hint=hint) == hint


coefficient = st.integers(1, 70)
expressions = st.recursive(
    st.sampled_from([C[0], C[1]]),
    lambda inner: st.one_of(
        st.builds(lambda a, n: sympy.floor(a / n), inner, coefficient),
        st.builds(lambda a, n: sympy.Mod(a, n), inner, coefficient),
        st.builds(lambda a, n: a * n, inner, coefficient),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, n: a + n, inner, coefficient),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(expressions, st.integers(1, 12), st.integers(1, 12))
def test_bounds_hold_at_every_point(expression, first, second):
    limits = bounds(expression, {C[0]: first - 1, C[1]: second - 1})
    if limits is None:
        return
    values = [
        int(sympy.sympify(expression).subs({C[0]: a, C[1]: b}))
        for a in range(first)
        for b in range(second)
    ]
    assert limits[0] <= min(values)
    assert max(values) <= limits[1]


@pytest.mark.parametrize(
    ("expression", "last", "expected"),
    [
        (sympy.floor(C[0] / 64), {C[0]: 127}, (0, 1)),
        (sympy.Mod(C[0], 64), {C[0]: 99}, (0, 63)),
        (sympy.Mod(C[0], 64), {C[0]: 35}, (0, 35)),
        (2 * C[0] + sympy.floor(C[1] / 64) + 5, {C[0]: 3, C[1]: 640}, (5, 21)),
        (10 - C[0], {C[0]: 3}, (7, 10)),
    ],
)
def test_bounds_of_coordinates_are_exact(expression, last, expected):
    assert bounds(expression, last) == expected


def test_blocks_of_a_symbol_come_from_floors_and_moduli():
    assert set(block_sizes(sympy.Mod(sympy.floor(C[0] / 64), 2))) == {(C[0], 64), (C[0], 128)}
    assert set(block_sizes(C[0] + 3)) == set()


@settings(max_examples=100, deadline=None)
@given(coefficient, coefficient, st.integers(2, 9), st.integers(2, 9))
def test_overlapping_symbols_are_found(first, second, rows, columns):
    expression = first * C[0] + second * C[1]
    values = [first * a + second * b for a in range(rows) for b in range(columns)]
    has_overlap = len(set(values)) < len(values)
    assert not has_overlap or overlapping_symbols(expression, {C[0]: rows - 1, C[1]: columns - 1})


@given(st.integers(1, 5000), st.none() | st.integers(1, 40))
def test_divisors_are_complete_and_sorted(value, limit):
    expected = [n for n in range(1, value + 1) if value % n == 0 and n <= (limit or value)]
    assert list(divisors(value, limit)) == expected

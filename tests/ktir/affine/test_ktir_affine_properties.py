"""Random affine expressions: text, structure and value agree."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
    AffineMap,
    AffineSet,
)

from torch_spyre.ktir.affine import bounds, contains, evaluate, points
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.syntax.affine_format import format_map, format_set
from torch_spyre.ktir.syntax.parser import KtirParser

DIMS, SYMBOLS = 3, 2
POINTS = list(itertools.product((-7, -1, 0, 2, 5), repeat=DIMS))
SYMBOL_VALUES = (3, -4)


def grow(inner):
    factors = st.integers(-9, 9)
    divisors = st.integers(1, 9)
    return st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, factors).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, divisors).map(lambda pair: pair[0] // pair[1]),
        st.tuples(inner, divisors).map(lambda pair: pair[0].ceil_div(pair[1])),
        st.tuples(inner, divisors).map(lambda pair: pair[0] % pair[1]),
        inner.map(lambda one: -one),
    )


LEAVES = st.one_of(
    st.integers(0, DIMS - 1).map(AffineExpr.dimension),
    st.integers(0, SYMBOLS - 1).map(AffineExpr.symbol),
    st.integers(-20, 20).map(AffineExpr.constant),
)
EXPRESSIONS = st.recursive(LEAVES, grow, max_leaves=8)


def read_map(text):
    return KtirParser(Source("<test>", text)).parse_attribute().data


@settings(max_examples=300, deadline=None)
@given(st.lists(EXPRESSIONS, max_size=3))
def test_a_map_reads_back_as_the_same_structure(expressions):
    affine_map = AffineMap(DIMS, SYMBOLS, tuple(expressions))
    # Building an expression simplifies it, and building the result again may once more.
    settled = read_map(format_map(affine_map))
    assert read_map(format_map(settled)) == settled
    for point in POINTS[::7]:
        assert settled.eval(point, SYMBOL_VALUES) == affine_map.eval(point, SYMBOL_VALUES)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_arrays_evaluate_like_numbers(expression):
    columns = [np.array(column, np.int64) for column in zip(*POINTS, strict=True)]
    values = np.broadcast_to(evaluate(expression, columns, SYMBOL_VALUES), len(POINTS))
    expected = [expression.eval(point, SYMBOL_VALUES) for point in POINTS]
    assert values.tolist() == expected
    assert [evaluate(expression, point, SYMBOL_VALUES) for point in POINTS] == expected


CONSTRAINTS = st.builds(
    AffineConstraintExpr, st.sampled_from(AffineConstraintKind), LEAVES | EXPRESSIONS, LEAVES
)


def boxed(constraints, size=4):
    """The constraints inside a small box around zero, so that every set has an end."""
    limits = []
    for position in range(DIMS):
        dim = AffineExpr.dimension(position)
        for expression in (dim + size, -dim + size):
            limits.append(
                AffineConstraintExpr(AffineConstraintKind.ge, expression, AffineExpr.constant(0))
            )
    return AffineSet(DIMS, SYMBOLS, (*constraints, *limits))


def brute_force(affine_set, size=4):
    cube = np.array(list(itertools.product(range(-size, size + 1), repeat=DIMS)), np.int64)
    return cube[contains(affine_set, cube, SYMBOL_VALUES)]


@settings(max_examples=200, deadline=None)
@given(st.lists(CONSTRAINTS, max_size=3))
def test_points_and_bounds_are_those_of_a_search(constraints):
    affine_set = boxed(constraints)
    expected = brute_force(affine_set)
    assert points(affine_set, SYMBOL_VALUES).tolist() == expected.tolist()
    box = bounds(affine_set, SYMBOL_VALUES)
    if not len(expected):
        assert box is None
    else:
        assert [interval.low for interval in box] == expected.min(0).tolist()
        assert [interval.high for interval in box] == expected.max(0).tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(CONSTRAINTS, max_size=3))
def test_a_set_reads_back_with_the_same_points(constraints):
    affine_set = boxed(constraints)
    settled = read_map(format_set(affine_set))
    assert read_map(format_set(settled)) == settled
    assert brute_force(settled).tolist() == brute_force(affine_set).tolist()

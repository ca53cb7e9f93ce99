"""Random affine expressions: parsing, printing and evaluation are consistent."""

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
        inner.map(lambda expression: -expression),
    )


LEAVES = st.one_of(
    st.integers(0, DIMS - 1).map(AffineExpr.dimension),
    st.integers(0, SYMBOLS - 1).map(AffineExpr.symbol),
    st.integers(-20, 20).map(AffineExpr.constant),
)
EXPRESSIONS = st.recursive(LEAVES, grow, max_leaves=8)


def parse_attribute(text):
    return KtirParser(Source("<test>", text)).parse_attribute().data


@settings(max_examples=300, deadline=None)
@given(st.lists(EXPRESSIONS, max_size=3))
def test_a_printed_map_parses_to_the_same_structure(expressions):
    affine_map = AffineMap(DIMS, SYMBOLS, tuple(expressions))
    # Constructing an expression simplifies it, and constructing the result may simplify it again.
    simplified = parse_attribute(format_map(affine_map))
    assert parse_attribute(format_map(simplified)) == simplified
    for point in POINTS[::7]:
        assert simplified.eval(point, SYMBOL_VALUES) == affine_map.eval(point, SYMBOL_VALUES)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_arrays_evaluate_like_integers(expression):
    columns = [np.array(column, np.int64) for column in zip(*POINTS, strict=True)]
    values = np.broadcast_to(evaluate(expression, columns, SYMBOL_VALUES), len(POINTS))
    expected = [expression.eval(point, SYMBOL_VALUES) for point in POINTS]
    assert values.tolist() == expected
    assert [evaluate(expression, point, SYMBOL_VALUES) for point in POINTS] == expected


CONSTRAINTS = st.builds(
    AffineConstraintExpr, st.sampled_from(AffineConstraintKind), LEAVES | EXPRESSIONS, LEAVES
)


def boxed(constraints, size=4):
    """Return the set of these constraints within a small box around zero, so that it is bounded."""
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
def test_points_and_bounds_match_brute_force(constraints):
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
def test_a_printed_set_parses_to_the_same_points(constraints):
    affine_set = boxed(constraints)
    simplified = parse_attribute(format_set(affine_set))
    assert parse_attribute(format_set(simplified)) == simplified
    assert brute_force(simplified).tolist() == brute_force(affine_set).tolist()

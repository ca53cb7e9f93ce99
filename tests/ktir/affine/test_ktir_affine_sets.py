"""Points, bounds and membership of affine sets; evaluation of maps."""

import itertools

import numpy as np
import pytest
from xdsl.ir.affine import AffineMap

from torch_spyre.ktir import SetError
from torch_spyre.ktir.affine import (
    as_box,
    bind_symbols,
    bounds,
    box_set,
    contains,
    count_points,
    evaluate_map,
    is_identity,
    permutation_of,
    points,
)
from torch_spyre.ktir.affine.bounding import Interval
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.syntax.parser import KtirParser


def parse_set(text):
    return KtirParser(Source("<test>", text)).parse_affine_set()


def parse_map(text):
    return KtirParser(Source("<test>", text)).parse_affine_map()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(d0) : (d0 >= 0, -d0 + 3 >= 0)", [0, 1, 2, 3]),
        ("(d0) : (-d0 >= 0, d0 >= 0)", [0]),
        ("(d0) : (-d0 + 0 >= 0, 0 <= d0)", [0]),
        ("(d0) : (d0 == 5)", [5]),
        ("(d0) : (2 * d0 == 5)", []),
        ("(d0) : (d0 >= 2, d0 <= 1)", []),
        ("(d0) : (3 * d0 >= -7, 3 * d0 <= 7)", [-2, -1, 0, 1, 2]),
        ("(d0) : (d0 floordiv 4 == -1)", [-4, -3, -2, -1]),
        ("(d0) : (d0 ceildiv 4 == -1)", [-7, -6, -5, -4]),
        ("(d0) : (d0 >= -4, d0 <= 4, d0 mod 3 == 2)", [-4, -1, 2]),
        ("(d0) : (d0 >= 0, d0 <= 9, (d0 + 1) mod 2 == 0, d0 mod 3 == 0)", [3, 9]),
        ("(d0) : (d0 >= 0, 5 >= 7, d0 <= 3)", []),
        ("(d0) : (d0 >= 3, (d0 + d0) mod 1 - d0 >= 0, d0 <= 4)", []),
    ],
)
def test_points_of_one_dim(text, expected):
    assert points(parse_set(text))[:, 0].tolist() == expected
    assert count_points(parse_set(text)) == len(expected)


def test_points_are_lexicographic():
    box = parse_set("(a, b) : (a >= 1, a <= 2, b >= 0, b <= 2)")
    assert points(box).tolist() == [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]]
    triangle = parse_set("(a, b) : (a >= 0, a <= 2, b >= 0, a - b >= 0)")
    assert points(triangle).tolist() == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]


def test_rank_zero_has_one_point_or_none():
    assert points(parse_set("() : ()")).shape == (1, 0)
    assert bounds(parse_set("() : ()")) == ()
    assert count_points(parse_set("() : (1 >= 2)")) == 0
    assert bounds(parse_set("() : (1 >= 2)")) is None


def test_symbols_are_bound_by_position():
    pair = parse_set("(i)[g] : (i - 2 * g >= 0, -i + 2 * g + 1 >= 0)")
    assert points(pair, [3])[:, 0].tolist() == [6, 7]
    assert points(bind_symbols(pair, [3]))[:, 0].tolist() == [6, 7]
    strided = parse_set("(i)[g] : (i >= 0, i <= 7, (i - g) mod 2 == 0)")
    assert points(strided, [1])[:, 0].tolist() == [1, 3, 5, 7]
    with pytest.raises(SetError, match="1 symbols need values, 0 given"):
        points(pair)


def test_boxes_are_recognised():
    assert as_box(box_set([4, 64])) == (Interval(0, 3), Interval(0, 63))
    assert as_box(parse_set("(a, b) : (a >= 0, a <= 3, b >= a, b <= 3)")) is None
    assert as_box(parse_set("(a) : (a >= 0, a <= 3, a mod 2 == 0)")) is None
    assert as_box(parse_set("(a)[s] : (a >= s, a <= 2 * s)"), [5]) == (Interval(5, 10),)


def test_bounds_are_exact():
    triangle = parse_set("(a, b) : (a >= 0, b >= 0, a + b <= 3, b >= 2 * a)")
    assert bounds(triangle) == (Interval(0, 1), Interval(0, 3))
    assert bounds(parse_set("(a) : (a >= 0, a <= 9, a mod 4 == 3)")) == (Interval(3, 7),)
    assert bounds(parse_set("(a) : (a >= 3, a <= 1)")) is None
    assert bounds(parse_set("(a, b) : (a >= 3, a <= 1, b >= a, b <= 2)")) is None


def test_coupled_dims_are_bounded_by_elimination():
    diamond = parse_set("(a, b) : (a + b >= 0, a + b <= 3, a - b >= 0, a - b <= 1)")
    expected = [
        [a, b]
        for a, b in itertools.product(range(-5, 6), repeat=2)
        if 0 <= a + b <= 3 and 0 <= a - b <= 1
    ]
    assert points(diamond).tolist() == expected


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("(a) : ()", "d0"),
        ("(a) : (a >= 0)", "d0"),
        ("(a, b) : (a >= 0, a <= 3, b <= 7)", "d1"),
        ("(a, b) : (a >= 0, b >= a)", "d0"),
        ("(a) : (a mod 2 == 0)", "d0"),
        ("(a, b) : (a - b == 0)", "d0"),
    ],
)
def test_an_unbounded_set_is_an_error(text, dim):
    with pytest.raises(SetError, match=f"unbounded along {dim}"):
        points(parse_set(text))


def test_a_set_with_too_many_points_is_an_error():
    with pytest.raises(SetError, match="the limit is"):
        points(box_set([1 << 20, 1 << 20]))
    with pytest.raises(SetError, match="the limit is"):
        points(parse_set("(a, b) : (a >= 0, a <= 1000000, b >= a, b <= 1000000)"))
    assert count_points(box_set([1 << 20, 1 << 20])) == 1 << 40


def test_large_sets_are_enumerated_in_chunks():
    half = parse_set("(a, b) : (a >= 0, a <= 1999, b >= 0, b <= 1999, a - b >= 0)")
    assert count_points(half) == 2000 * 2001 // 2
    wide = parse_set("(a, b) : (a >= 0, a <= 1, b >= 0, b <= 2000000, (a + b) mod 2 == 0)")
    assert count_points(wide) == 2000001


def test_membership_of_many_points_at_once():
    triangle = parse_set("(a, b)[s] : (a >= 0, a <= s, b >= 0, b <= a)")
    candidates = np.array([[0, 0], [1, 2], [2, 2], [4, 0], [-1, 0]], np.int64)
    assert contains(triangle, candidates, [3]).tolist() == [True, False, True, False, False]


def test_maps_are_evaluated_on_many_points_at_once():
    images = evaluate_map(
        parse_map("(a, b)[s] -> (a * 2 + s, b floordiv 3, b ceildiv 3, b mod 3, 7)"),
        np.array([[1, -4], [2, 4]], np.int64),
        [10],
    )
    assert images.tolist() == [[12, -2, -1, 2, 7], [14, 1, 2, 1, 7]]


def test_permutations_are_recognised():
    assert permutation_of(parse_map("(a, b, c) -> (c, a, b)")) == (2, 0, 1)
    assert permutation_of(parse_map("(a, b) -> (a, a)")) is None
    assert permutation_of(parse_map("(a, b) -> (a)")) is None
    assert permutation_of(parse_map("(a, b) -> (a, b + 0)")) == (0, 1)
    assert permutation_of(parse_map("(a, b) -> (a, b + 1)")) is None
    assert is_identity(AffineMap.identity(3)) and not is_identity(parse_map("(a, b) -> (b, a)"))

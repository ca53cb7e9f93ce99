"""Unions of intervals, against sets of the points that they cover."""

from hypothesis import given
from hypothesis import strategies as st

from torch_spyre.profiler.intervals import difference, intersection, length, union

PAIRS = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple)
UNIONS = st.lists(PAIRS, max_size=8).map(union)


def points(intervals):
    return {point for begin, end in intervals for point in range(begin, end)}


@given(st.lists(PAIRS, max_size=8))
def test_a_union_covers_the_points_of_its_intervals_once(intervals):
    result = union(intervals)
    assert points(result) == points(intervals)
    assert length(result) == len(points(intervals))
    assert all(first[1] < second[0] for first, second in zip(result, result[1:], strict=False))


@given(UNIONS, UNIONS)
def test_an_intersection_covers_what_both_cover(first, second):
    assert points(intersection(first, second)) == points(first) & points(second)


@given(UNIONS, UNIONS)
def test_a_difference_covers_what_only_the_first_covers(first, second):
    result = difference(first, second)
    assert points(result) == points(first) - points(second)
    assert length(result) == len(points(result))

"""Exact arithmetic without floats: known values, and slices that sum to the total."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_spyre.timing.exact import apportion, ceil_divide, exponential, log2, power

weights = st.lists(st.fractions(0, 1000), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (log2(Fraction(8)), 3),
        (log2(Fraction(1, 4)), -2),
        (log2(Fraction(3)), Fraction("1.584963")),
        (power(Fraction(1, 2), Fraction("0.35")), Fraction("0.784584")),
        (power(Fraction(1, 3), Fraction(0)), 1),
        (power(Fraction(1, 10), Fraction(50)), Fraction(1, 10**6)),  # never zero
        (exponential(Fraction(-1)), Fraction("0.367879")),
        (ceil_divide(9, 4), 3),
        (ceil_divide(8, 4), 2),
    ],
)
def test_known_values_to_six_digits(value, expected):
    assert value == expected


@settings(deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**70), weights)
def test_slices_sum_to_the_total_and_are_proportional_within_one(whole, weights):
    parts = apportion(whole, weights)
    assert sum(parts) == whole
    if any(weights):
        for part, weight in zip(parts, weights, strict=True):
            assert abs(part - whole * weight / sum(weights)) < 1


def test_equal_remainders_go_to_the_first():
    assert apportion(5, [Fraction(1)] * 3) == [2, 2, 1]
    assert apportion(2, [Fraction(0)] * 4) == [1, 1, 0, 0]
    assert apportion(0, []) == []

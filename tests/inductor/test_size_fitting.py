"""Integers that depend on sizes are fitted exactly, or not at all."""

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from torch_spyre._inductor.dynamic_sizes import SizeRange, size_symbol, value_at
from torch_spyre._inductor.size_fitting import SizeFit, evaluator, sample_sizes
from torch_spyre.errors import UnsupportedError

S0, S1 = size_symbol(0), size_symbol(1)
RANGES = [SizeRange(33, 64), SizeRange(129, 256)]


def make_fit(ranges=RANGES):
    symbols = [size_symbol(number) for number in range(len(ranges))]
    return SizeFit(symbols, sample_sizes(ranges))


def values_of(fit, expression):
    return [value_at(expression, dict(zip(fit.symbols, s, strict=True))) for s in fit.samples]


def test_samples_include_both_ends_of_every_range():
    samples = sample_sizes(RANGES)
    assert samples[:4] == [(64, 256), (33, 256), (64, 129), (33, 129)]
    for position, limits in enumerate(RANGES):
        assert all(sample[position] in limits for sample in samples)


@given(st.integers(-10, 10), st.integers(0, 5), st.integers(0, 5))
def test_sums_of_sizes_are_found(constant, first, second):
    fit = make_fit()
    expression = constant + first * S0 + second * S1
    assert sympy.expand(fit.fit(values_of(fit, expression)) - expression) == 0


@given(st.sampled_from([32, 64]), st.integers(-3, 3), st.integers(1, 3))
def test_stick_counts_of_known_sums_agree_in_the_whole_range(stick, constant, factor):
    ranges = [SizeRange(65, 128)]
    fit = make_fit(ranges)
    elements = constant + factor * S0
    expression = sympy.ceiling(elements / stick)
    shapes = [((3, length), (length, 1)) for length in values_of(fit, elements)]
    rows = [(count, 3, stick) for count in values_of(fit, expression)]
    fitted, *constants = fit.fit_device_sizes(shapes, rows, (stick, 0, 1))
    assert constants == [3, stick]
    for size in range(65, 129):
        assert value_at(fitted, {S0: size}) == value_at(expression, {S0: size})
        assert evaluator(fitted, [S0])(size) == value_at(expression, {S0: size})


@pytest.mark.parametrize("expression", [S0 * S0, S0 * S1, sympy.floor(S0 / 3), 200 - S0])
def test_other_functions_are_rejected(expression):
    fit = make_fit()
    with pytest.raises(UnsupportedError, match="a size that is"):
        fit.fit(values_of(fit, expression))


def test_equal_values_are_a_constant():
    assert make_fit().fit([7] * 6) == 7


def test_sticks_are_those_of_the_dim_that_lanes_run_along():
    """50 and 96 fill 4 sticks of 16 and 3 of 32 elements: which dim counts is not a guess."""
    fit = make_fit([SizeRange(34, 63), SizeRange(66, 127)])
    shapes = [((rows, columns), (columns, 1)) for rows, columns in fit.samples]
    device_sizes = [(-(-columns // 32), rows, 32) for rows, columns in fit.samples]
    fitted = fit.fit_device_sizes(shapes, device_sizes, (32, 127, 1))
    assert [value_at(size, {S0: 50, S1: 96}) for size in fitted] == [3, 50, 32]

"""Gamma and Bessel functions, and functions that decompose to erf and log."""

import math

import pytest
import torch
from cpu_reference import (
    assert_close,
    assert_gradients_close_to_cpu,
    make_tensor,
    mark_heavy,
    to_card,
    to_reference,
)

special = torch.special
# With the range of arguments.
FUNCTIONS = {
    "lgamma": (torch.lgamma, -9.7, 90.0),
    "digamma": (torch.digamma, -9.7, 90.0),
    "trigamma": (lambda x: torch.polygamma(1, x), 0.2, 30.0),
    "mvlgamma": (lambda x: torch.mvlgamma(x, 3), 1.1, 20.0),
    "i0": (special.i0, -9.0, 9.0),
    "i0e": (special.i0e, -30.0, 30.0),
    "i1": (special.i1, -9.0, 9.0),
    "i1e": (special.i1e, -30.0, 30.0),
    "erfcx": (special.erfcx, -2.0, 30.0),
    "log_ndtr": (special.log_ndtr, -30.0, 5.0),
    "ndtri": (special.ndtri, 1e-6, 1.0),
    "entr": (special.entr, 0.0, 30.0),
}
QUICK = ("lgamma", "i1e", "ndtri", "log_ndtr")
HEAVY = [name for name in FUNCTIONS if name not in QUICK]
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e-6, -1e-6, 2.0])


@pytest.mark.parametrize("name", mark_heavy(FUNCTIONS, *HEAVY))
def test_functions_are_accurate_to_ulps(name, no_fallbacks):
    function, low, high = FUNCTIONS[name]
    x = make_tensor(700, low=low, high=high, dtype=torch.float32)
    expected = function(to_reference(x))
    assert_close(function(x.to("spyre")), expected, units=32, scale=0.25)
    half = x.half().to("spyre")
    assert_close(function(half), function(to_reference(half)), units=4, scale=0.01)


# On the CPU, Bessel functions of infinity are NaN, and trigamma is finite at a pole.
CALM_AT_THE_ENDS = ("lgamma", "digamma", "i0e", "i1e", "erfcx", "log_ndtr", "ndtri")


@pytest.mark.parametrize("name", mark_heavy(CALM_AT_THE_ENDS, *CALM_AT_THE_ENDS[1:6]))
def test_special_arguments(name, no_fallbacks):
    function, *_ = FUNCTIONS[name]
    card = ODD.to("spyre")
    assert_close(function(card), function(to_reference(card)), units=16, scale=1e-6)


def test_bessel_functions_of_infinity_are_infinite(no_fallbacks):
    x = torch.tensor([math.inf, -math.inf]).to("spyre")
    assert special.i0(x).tolist() == [math.inf, math.inf]
    assert special.i1(x).tolist() == [math.inf, -math.inf]


def test_ndtri_is_accurate_for_small_arguments(no_fallbacks):
    x = torch.logspace(-37, -2, 500).to("spyre")
    ratio = special.ndtri(x).cpu().double() / special.ndtri(x.cpu().double())
    assert (ratio - 1).abs().max() < 1e-6


def test_compiled_functions_match_eager(no_fallbacks):
    def some(x):
        return special.i1e(x), special.log_ndtr(x)

    x = make_tensor(3, 70, low=0.1, high=9.0, dtype=torch.float32)
    actual = torch.compile(some)(x.to("spyre"))
    assert_close(actual, some(to_reference(x)), units=32, scale=0.25)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, no_fallbacks):
    function, _, high = FUNCTIONS[name]
    x = make_tensor(33, low=1.2, high=high, dtype=torch.float32)
    x = x * 0.5 if name == "ndtri" else x
    assert_gradients_close_to_cpu(function, x, units=64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool], ids=str)
def test_signbit(dtype, no_fallbacks):
    x = ODD.to(dtype) if dtype.is_floating_point else make_tensor(70, dtype=dtype)
    actual = torch.signbit(x.to("spyre"))
    known = ~x.isnan()
    assert torch.equal(actual.cpu()[known], torch.signbit(x)[known])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_xlog1py(dtype, no_fallbacks):
    one, other = ODD.repeat(len(ODD)), ODD.repeat_interleave(len(ODD))
    card = to_card((one.to(dtype), other.to(dtype)))
    actual = special.xlog1py(*card)
    assert_close(actual, special.xlog1py(*to_reference(card)), units=8, scale=1e-3)
    assert_close(
        special.xlog1py(2.0, card[0]), special.xlog1py(2.0, to_reference(card[0])), units=8
    )

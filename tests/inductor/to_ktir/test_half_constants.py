"""Tests that constants of fp16 kernels are the nearest values of the card's format."""

import math

import pytest
import torch


def nearest(value):
    """Return the nearest value with nine mantissa bits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 1024), exponent - 10)


# The nearest IEEE half float of the first one is a tie, which would be rounded away from it.
@pytest.mark.parametrize("value", [-0.705565541827712, 0.1, 1 / 3, 2.5, 1e-6])
def test_a_constant_is_rounded_once(value):
    x = torch.full((3, 70), -1.0, dtype=torch.float16).to("spyre")
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        actual = torch.compile(lambda x: x * value)(x).float().cpu()
    assert set(actual.flatten().tolist()) == {-nearest(value)}

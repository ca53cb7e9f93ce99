"""Division that rounds down: as Python has it, not as the nearest quotient would be."""

import math

import pytest
import torch
from cpu_reference import to_card

pytestmark = pytest.mark.usefixtures("no_fallbacks")
DIVIDENDS = torch.tensor([1.0, 2.0, 3.0, 0.5, -1.0, -0.3, 100.0, 0.0, math.inf, math.nan])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("divisor", [0.1, -0.1, 2.5, 0.0, math.inf, -math.inf])
def test_floor_division_near_integer_quotients(divisor, compiled):
    def divide(x):
        return x // divisor, torch.div(x, torch.full_like(x, divisor), rounding_mode="floor")

    call = torch.compile(divide, dynamic=False) if compiled else divide
    for actual, expected in zip(call(to_card(DIVIDENDS)), divide(DIVIDENDS), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def test_random_quotients_match_the_cpu():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4000, generator=generator) for _ in range(2))
    actual = (1000 * to_card(x)) // to_card(y)
    assert torch.equal(actual.cpu(), (1000 * x) // y)


@pytest.mark.parametrize("divisor", [3, -4, 2.5])
def test_floor_division_of_integers_and_scalars(divisor):
    x = torch.arange(1, 20) - 30
    for call in (lambda x: x // divisor, lambda x: divisor // x):
        actual, expected = call(to_card(x)), call(x)
        assert actual.dtype == expected.dtype and actual.tolist() == expected.tolist()

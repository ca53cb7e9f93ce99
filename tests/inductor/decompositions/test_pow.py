"""pow with exponents and bases that float16 cannot represent, and with large integers."""

import numpy as np
import pytest
import torch

from torch_spyre.testing.formats import assert_close_sen169

HALF = torch.float16
WAYS = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def samples(dtype, low, high):
    torch.manual_seed(0)
    return (torch.rand(4000) * (high - low) + low).to(dtype).to("spyre")


def powers(function, compiled):
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False) if compiled else function


@WAYS
@pytest.mark.parametrize("exponent", [0.3, -1.7, 1 / 3, 2.5, -2, 3, 4, 7, -5])
def test_scalar_exponent(exponent, compiled, no_fallbacks):
    x = samples(HALF, 0.3, 2.5)
    actual = powers(lambda x: torch.pow(x, exponent), compiled)(x)
    assert_close_sen169(actual, x.cpu().double() ** exponent, 1.2)


@WAYS
@pytest.mark.parametrize("exponent", [-1.7, 7, 12.0, -5])
def test_scalar_exponent_in_float32(exponent, compiled, no_fallbacks):
    x = samples(torch.float32, 0.3, 2.5)
    actual = powers(lambda x: torch.pow(x, exponent), compiled)(x).cpu().numpy()
    exact = x.cpu().double().numpy() ** float(np.float32(exponent))
    assert (np.abs(actual - exact) <= 1.01 * np.spacing(exact.astype(np.float32))).all()


@WAYS
@pytest.mark.parametrize("base", [0.3, 2, 10.1])
def test_scalar_base(base, compiled, no_fallbacks):
    x = samples(HALF, -3, 3)
    actual = powers(lambda x: torch.pow(base, x), compiled)(x)
    assert_close_sen169(actual, torch.pow(base, x.cpu().double()), 0.6)


@WAYS
def test_tensor_base_and_exponent(compiled, no_fallbacks):
    x, y = samples(HALF, 0.3, 2.5), samples(HALF, -3, 3)
    assert_close_sen169(
        powers(torch.pow, compiled)(x, y), torch.pow(x.cpu().double(), y.cpu().double()), 0.51
    )


@WAYS
@pytest.mark.parametrize("exponent", [4, 5, -3, 0.3, 2.5])
def test_signs_and_zeros_match_pytorch(exponent, compiled, no_fallbacks):
    x = torch.tensor([-2.0, -0.5, 0.0, 1.0, float("nan")])
    actual = powers(lambda x: torch.pow(x, exponent), compiled)(x.to("spyre")).cpu()
    torch.testing.assert_close(actual, torch.pow(x, exponent), equal_nan=True)


@WAYS
@pytest.mark.parametrize("base", [2, -3, 0, 1.5])
def test_bool_exponent(base, compiled, no_fallbacks):
    flags = torch.tensor([True, False, True])
    actual = powers(lambda x: torch.pow(base, x), compiled)(flags.to("spyre"))
    torch.testing.assert_close(actual.cpu(), torch.pow(base, flags), rtol=0, atol=0)

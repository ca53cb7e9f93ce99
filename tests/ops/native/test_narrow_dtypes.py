"""Scalars out of the range of a narrow dtype are converted or rejected as on the CPU."""

import operator

import pytest
import torch

OPS = {
    "less": operator.lt,
    "at least": operator.ge,
    "remainder": operator.mod,
    "quotient": operator.floordiv,
    "fmod": torch.fmod,
    "from below": lambda x, number: x.clamp(min=number),
    "from above": lambda x, number: x.clamp(max=number),
    "both": lambda x, number: x.clamp(number, 8),
    "threshold": lambda x, number: torch.nn.functional.threshold(x, number, number),
}


def every_op(x):
    return [op(x, -8) for op in OPS.values()]


def test_scalar_is_converted_to_uint8():
    x = torch.tensor([0, 1, 7, 100, 250], dtype=torch.uint8)
    for function in (every_op, torch.compile(every_op)):
        actual = function(x.to("spyre"))
        for name, got, expected in zip(OPS, actual, every_op(x), strict=True):
            assert got.dtype == expected.dtype and got.tolist() == expected.tolist(), name


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
@pytest.mark.parametrize("op", [operator.add, operator.lt])
def test_operators_wrap_scalars_to_the_dtype(op, dtype):
    x = torch.tensor([0, 1, 7, 100], dtype=dtype)
    assert torch.equal(op(x.to("spyre"), 70001).cpu(), op(x, 70001))


def make_masked(x, number):
    return x.masked_fill(x > 2, number)


def make_filled(x, number):
    return torch.full_like(x, number)


def make_scaled(x, number):
    return torch.add(x, x, alpha=number)


def make_scattered(x, number):
    return x.scatter(0, torch.zeros_like(x).long(), number)


def make_limited(x, number):
    return x.clamp(max=number)


@pytest.mark.parametrize("number", [300, -300])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize(
    "function", [make_masked, make_filled, make_scaled, make_scattered, make_limited]
)
def test_invalid_scalars_raise_as_on_the_cpu(function, dtype, number):
    x = torch.tensor([0, 1, 7, 100], dtype=dtype)
    for tensor in (x, x.to("spyre")):
        with pytest.raises(RuntimeError, match="without overflow"):
            function(tensor, number)


def test_new_full_of_bool_stores_one():
    def function(x):
        return x.new_full((3,), 2).to(torch.uint8)

    flags = torch.zeros(2, dtype=torch.bool).to("spyre")
    assert torch.compile(function)(flags).tolist() == [1, 1, 1]

"""Type promotion of binary ops: all pairs of dtypes, tensors, 0-d tensors and scalars."""

import itertools

import pytest
import torch

DTYPES = [
    *(torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32),
    *(torch.int16, torch.int8, torch.uint8, torch.bool),
]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
ARITHMETIC = ["add", "mul", "div", "pow", "remainder", "maximum", "logical_and", "bitwise_and"]
SCALARS = [2, 2.5, True, -1]
IN_PLACE = {"add", "mul", "div", "remainder", *COMPARISONS}


def vector(dtype, device):
    return torch.tensor([1, 2, 3, 5]).to(dtype).to(device)


def outcome(call, device):
    try:
        return call(device)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return type(error)


def check(name, call):
    expected, actual = outcome(call, "cpu"), outcome(call, "spyre")
    if isinstance(expected, type) or isinstance(actual, type):
        assert actual == expected, name
        return
    assert actual.dtype == expected.dtype, name
    # Small integers, whose quotients are rounded to 9 bits on the card and to 7 in bfloat16.
    rtol = 2**-7 if actual.dtype is torch.bfloat16 else 2**-9
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=0)


def check_pair(op, left, right):
    function, label = getattr(torch, op), f"{op} {left} {right}"
    check(label, lambda device: function(vector(left, device), vector(right, device)))
    check(f"{label} 0-d", lambda device: function(vector(left, device), vector(right, device)[1]))
    check(f"0-d {label}", lambda device: function(vector(left, device)[1], vector(right, device)))
    if op in IN_PLACE:
        check(
            f"{label} in place",
            lambda device: getattr(vector(left, device), f"{op}_")(vector(right, device)),
        )
    check(
        f"{label} out=",
        lambda device: function(
            vector(left, device),
            vector(left, device),
            out=torch.empty(4, dtype=right, device=device),
        ),
    )


@pytest.mark.parametrize("op", ["lt", "add"])
def test_a_sample_of_pairs(op):
    for left, right in zip(DTYPES, [*DTYPES[4:], *DTYPES[:4]], strict=True):
        check_pair(op, left, right)


@pytest.mark.parametrize("op", ["lt", "div"])
def test_scalars(op):
    for dtype, scalar in itertools.product(DTYPES[::2], SCALARS):
        check(f"{op} {dtype} {scalar}", lambda d: getattr(torch, op)(vector(dtype, d), scalar))  # noqa: B023


@pytest.mark.heavy
@pytest.mark.parametrize("op", [*COMPARISONS, *ARITHMETIC])
def test_every_pair(op):
    for left, right in itertools.product(DTYPES, DTYPES):
        check_pair(op, left, right)

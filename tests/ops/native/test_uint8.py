"""uint8 on the card: in slots of 32 bits, wrapped to eight wherever a result exceeds them."""

import pytest
import torch
from cpu_reference import assert_close_to_cpu

ONE = torch.arange(0, 250, 5, dtype=torch.uint8).repeat(7)
OTHER = torch.arange(0, 350, 1).to(torch.uint8).flip(0)

FUNCTIONS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "number": lambda a, b: a + 200,
    "negative": lambda a, b: -a,
    "square": lambda a, b: a**3,
    "not": lambda a, b: ~a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "left": lambda a, b: a << 3,
    "right": lambda a, b: a >> 3,
    "quotient": lambda a, b: a // (b | 1),
    "remainder": lambda a, b: a % (b | 1),
    "ratio": lambda a, b: a / (b | 1),
    "below": lambda a, b: a < b,
    "at least": lambda a, b: a >= 128,
    "same": lambda a, b: a == b,
    "larger": lambda a, b: torch.maximum(a, b),
    "chosen": lambda a, b: torch.where(a > b, a - b, b - a),
    "clamped": lambda a, b: (a + b).clamp(10, 100),
    "total": lambda a, b: (a.sum(), b.view(7, 50).sum(0)),
    "extremes": lambda a, b: (a.max(), b.min(), a.argmax()),
    "any": lambda a, b: (a.any(), b.all()),
    "running": lambda a, b: a.cumsum(0),
    "to float": lambda a, b: (a.half() / 3, b.float() * 2),
    "to integers": lambda a, b: (a.int(), b.to(torch.int8), b.to(torch.int16), a.long(), a.bool()),
    "from float": lambda a, b: (a.float() * 0.7).to(torch.uint8),
    "from integers": lambda a, b: ((a.int() * 3 - 100).to(torch.uint8), b.to(torch.int8).byte()),
    "from flags": lambda a, b: (a > b).to(torch.uint8) + 255,
    "picked": lambda a, b: a[b.long() % 50],
    "joined": lambda a, b: torch.cat([a, b + a]),
    "mixed": lambda a, b: a + b.to(torch.int8),
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_uint8_arithmetic_wraps_as_on_the_cpu(name, no_fallbacks):
    assert_close_to_cpu(FUNCTIONS[name], ONE, OTHER)


def test_uint8_image_is_normalized(no_fallbacks):
    image = torch.arange(3 * 8 * 8).to(torch.uint8).view(3, 8, 8)
    assert_close_to_cpu(lambda x: (x.half() / 255 - 0.5) / 0.5, image)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a.sum(dtype=torch.uint8),
        lambda a, b: b.index_add(0, a.long(), a),
        lambda a, b: b.scatter_add(0, a.long(), a),
        lambda a, b: a.prod(dtype=torch.uint8),
    ],
)
def test_uint8_sums_wrap(function):
    assert_close_to_cpu(function, ONE, OTHER)


def test_equal_compares_on_the_card(no_fallbacks):
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool, torch.float16):
        x = (ONE % 3).to(dtype).to("spyre")
        assert torch.equal(x, x.clone())
        assert torch.equal(x, x)
        assert not torch.equal(x, x[1:])
        assert not torch.equal(x[1:], x[:-1])
    nan = torch.full((3,), float("nan"), device="spyre")
    assert not torch.equal(nan, nan)

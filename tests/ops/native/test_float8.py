"""Floats of eight bits: converted, moved and multiplied on the card."""

import warnings

import pytest
import torch

EIGHT_BITS = [torch.float8_e4m3fn, torch.float8_e5m2fnuz]
ENDS = [0.0, -0.0, 448.0, 464.0, 465.0, 1e4, 57344.0, 61439.0, 61440.0, 1e9, 2.0**-20]


def values(dtype):
    """Return values of all magnitudes that the card represents exactly, and NaN."""
    numbers = torch.randn(5, 150, generator=torch.Generator().manual_seed(0))
    numbers *= 2.0 ** torch.arange(-15, 15).repeat(5, 5)
    numbers[0, : len(ENDS)], numbers[1, : len(ENDS)] = torch.tensor(ENDS), -torch.tensor(ENDS)
    numbers[2, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    return numbers.to(dtype).to("spyre").cpu()


def fallbacks():
    return torch.spyre.counters()["fallbacks"]


def same(actual, expected):
    torch.testing.assert_close(
        actual.cpu().float(), expected.float(), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("target", EIGHT_BITS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_conversion_to_float8_and_back(dtype, target, compiled):
    x, before = values(dtype), fallbacks()

    def there(x):
        return x.to(target)

    def back(x):
        return x.to(dtype)

    if compiled:
        there, back = torch.compile(there), torch.compile(back)
    narrow = there(x.to("spyre"))
    wide = back(narrow)
    assert fallbacks() == before
    assert narrow.dtype == target
    same(narrow, x.to(target))
    same(wide, x.to(target).to(dtype))


def test_arithmetic_between_conversions_is_one_graph():
    x, before = values(torch.float32), fallbacks()
    function = torch.compile(lambda x: (x * 2).to(torch.float8_e4m3fn).float() + 1)
    actual = function(x.to("spyre"))
    assert fallbacks() == before
    same(actual, (x * 2).to(torch.float8_e4m3fn).float() + 1)


@pytest.mark.parametrize("target", EIGHT_BITS, ids=str)
def test_data_movement_ops(target):
    x, before = values(torch.float32).to(target), fallbacks()
    on_card = x.to("spyre")
    for move in (
        lambda x: torch.cat([x, x], 1),
        lambda x: x.t().contiguous(),
        lambda x: x[1:, 3:77].clone(),
        lambda x: x.view(-1)[::3].clone(),
    ):
        same(move(on_card), move(x))
    assert fallbacks() == before


def test_conversion_from_integers():
    x, before = torch.arange(-20, 20), fallbacks()
    actual = x.to("spyre").to(torch.float8_e4m3fn).to(torch.int32)
    assert fallbacks() == before
    assert torch.equal(actual.cpu(), x.to(torch.float8_e4m3fn).to(torch.int32))


SCALES = {
    "one each": (torch.tensor(0.5), torch.tensor(3.0)),
    "rows and columns": (torch.rand(32, 1) + 0.5, torch.rand(1, 80) + 0.5),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("out_dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
def test_scaled_mm(scales, out_dtype, compiled):
    rows = torch.randn(32, 96).to(torch.float8_e4m3fn)
    columns = torch.randn(80, 96).to(torch.float8_e4m3fn).t()
    bias = torch.randn(80).half()
    exact = (rows.double() * scales[0]) @ (columns.double() * scales[1]) + bias.double()
    before = fallbacks()

    def product(rows, columns, scale_a, scale_b, bias):
        return torch._scaled_mm(rows, columns, scale_a, scale_b, bias=bias, out_dtype=out_dtype)

    if compiled:
        product = torch.compile(product)
    actual = product(*(tensor.to("spyre") for tensor in (rows, columns, *scales, bias)))
    assert fallbacks() == before
    assert actual.dtype == out_dtype
    # The bias is rounded when it is copied; a half is rounded once more.
    torch.testing.assert_close(actual.cpu().double(), exact, rtol=2**-9, atol=2**-7)


def test_scaled_mm_rejects_a_scale_of_wrong_size():
    rows = torch.randn(32, 96).to(torch.float8_e4m3fn).to("spyre")
    wrong, right = torch.ones(3, device="spyre"), torch.ones((), device="spyre")
    with warnings.catch_warnings(), pytest.raises((RuntimeError, ValueError), match="scale"):
        warnings.simplefilter("ignore")  # the op falls back to the CPU, which raises
        torch._scaled_mm(rows, rows.t(), wrong, right)

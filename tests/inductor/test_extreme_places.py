"""argmax, argmin, and max and min with their places: as PyTorch has them, on the card."""

import pytest
import torch

OPS = {
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "max": lambda x, dim: x.max(dim),
    "min": lambda x, dim: x.min(dim),
}
DTYPES = [torch.float16, torch.float32, torch.int32, torch.int64]
SHAPES = [((3, 100), -1), ((3, 100), 0), ((70, 65), 1), ((4, 70, 33), 1), ((513,), 0), ((1, 1), 1)]


def few_values(shape, dtype):
    """Every value many times over, and NaNs among floats."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-3, 4, shape, generator=generator).to(dtype)
    if dtype.is_floating_point:
        places = torch.randint(0, values.numel(), (3,), generator=generator)
        values.view(-1)[places] = float("nan")
    return values


def parts(result):
    return tuple(result) if isinstance(result, tuple) else (result,)


def check(op, values, dim, run):
    wanted = parts(OPS[op](values, dim))
    found = parts(run(values.to("spyre"), dim))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.device.type == "spyre"
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_eager(op, dtype):
    for shape, dim in SHAPES:
        check(op, few_values(shape, dtype), dim, OPS[op])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_compiled(op, dtype):
    for shape, dim in SHAPES:
        torch._dynamo.reset()
        check(op, few_values(shape, dtype), dim, torch.compile(OPS[op]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_larger_than_the_scratchpad(dtype):
    values = few_values((1, 500_000), dtype)
    if dtype.is_floating_point:
        values = values.nan_to_num(0.0)
    values[0, 399_999], values[0, 410_000] = 9, 9
    check("argmax", values, 1, OPS["argmax"])
    check("min", values, 1, torch.compile(OPS["min"]))


def test_all_elements():
    values = few_values((37, 41), torch.float32)
    found = values.to("spyre").argmax()
    assert found.cpu() == values.argmax()

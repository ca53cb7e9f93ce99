"""argmax, argmin, and max and min with indices, match PyTorch on the CPU."""

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
    compare(op, values, dim, run(values.to("spyre"), dim))


def compare(op, values, dim, result):
    expected, actual = parts(OPS[op](values, dim)), parts(result)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.device.type == "spyre"
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_eager(op, dtype):
    for shape, dim in SHAPES:
        check(op, few_values(shape, dtype), dim, OPS[op])


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_compiled(op, dtype):
    torch._dynamo.reset()
    dims = [dim for _, dim in SHAPES]
    values = [few_values(shape, dtype) for shape, _ in SHAPES]
    # A single graph halves the compile time.
    run = torch.compile(
        lambda tensors: [OPS[op](x, dim) for x, dim in zip(tensors, dims, strict=True)]
    )
    results = run([x.to("spyre") for x in values])
    for x, dim, result in zip(values, dims, results, strict=True):
        compare(op, x, dim, result)


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_larger_than_the_scratchpad(dtype):
    values = few_values((1, 500_000), dtype)
    if dtype.is_floating_point:
        values = values.nan_to_num(0.0)
    values[0, 399_999], values[0, 410_000] = 9, 9
    check("argmax", values, 1, OPS["argmax"])
    check("min", values, 1, torch.compile(OPS["min"]))


def test_all_elements():
    values = few_values((37, 41), torch.float32)
    actual = values.to("spyre").argmax()
    assert actual.cpu() == values.argmax()

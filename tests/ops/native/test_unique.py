"""`unique`, `searchsorted`, `nanmedian`, and index ops that accumulate duplicates."""

import math

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor, mark_heavy, rotate_dtypes, to_card

TYPES = [torch.float32, torch.float16, torch.int64, torch.bool]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    rotate_dtypes([(), (280,), (3, 5, 7), (0,)], TYPES, always=torch.float32),
    ids=str,
)
def test_unique_of_elements(shape, dtype, no_fallbacks):
    x = (make_tensor(*shape) * 4).round().to(dtype)
    actual = torch.unique(x.to("spyre"), return_inverse=True, return_counts=True)
    expected = torch.unique(x, return_inverse=True, return_counts=True)
    for one, other in zip(actual, expected, strict=True):
        assert one.device.type == "spyre" and one.dtype == other.dtype
        assert torch.equal(one.cpu(), other)


def test_unique_keeps_each_nan(no_fallbacks):
    x = torch.tensor([math.nan, 1.0, math.nan, -math.inf, 1.0, math.inf])
    actual, times = torch.unique(x.to("spyre"), return_counts=True)
    assert (
        actual.cpu()[:3].tolist() == [-math.inf, 1.0, math.inf] and actual.cpu()[3:].isnan().all()
    )
    assert times.tolist() == [1, 2, 1, 1, 1]


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_unique_consecutive(dim, no_fallbacks):
    x = torch.tensor([[1, 1, 2, 2, 2], [1, 1, 2, 2, 2], [0, 0, 0, 3, 3]]).repeat(2, 1)
    options = dict(return_inverse=True, return_counts=True, dim=dim)
    actual = torch.unique_consecutive(x.to("spyre"), **options)
    for one, other in zip(actual, torch.unique_consecutive(x, **options), strict=True):
        assert torch.equal(one.cpu(), other) and one.stride() == other.stride()


def test_unique_consecutive_of_empty_tensors(no_fallbacks):
    x = torch.zeros(5, 0, 3)
    for options in ({}, {"dim": 1}):
        actual = torch.unique_consecutive(x.to("spyre"), **options)
        assert actual.shape == torch.unique_consecutive(x, **options).shape
    with pytest.raises(RuntimeError, match="no other dim may have size 0"):
        torch.unique_consecutive(x.to("spyre"), dim=0)
    with pytest.raises(RuntimeError, match="no other dim may have size 0"):
        torch.unique_consecutive(x[:, :, :0].to("spyre"), dim=1)


@pytest.mark.parametrize("shape", [(), (70,), (3, 5, 7), (4, 0)], ids=str)
@pytest.mark.parametrize("size", [0, 5, 200])
def test_nonzero_static(shape, size, no_fallbacks):
    x = (make_tensor(*shape) > 0.5).to(torch.float32)
    actual = torch.nonzero_static(x.to("spyre"), size=size, fill_value=-7)
    assert torch.equal(actual.cpu(), torch.nonzero_static(x, size=size, fill_value=-7))


def test_nanmedian(no_fallbacks):
    x = make_tensor(4, 33, dtype=torch.float32)
    x[0, ::2], x[1], x[2, 3] = math.nan, math.nan, math.nan
    assert_close_to_cpu(
        lambda x: (x.nanmedian(), x.nanmedian(1)[0], x.nanmedian(0, True)[0]), x, units=0
    )
    values, places = x.to("spyre").nanmedian(1)
    assert torch.equal(x.gather(1, places.cpu()[:, None])[0], values.cpu()[:1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2, 70])
def test_linspace_between_tensors(steps, dtype, no_fallbacks):
    low, high = torch.tensor(-3.0), torch.tensor(11.0)
    for one, other in ((low, high), (low, 11.0), (-3.0, high)):
        expected = torch.linspace(one, other, steps, dtype=dtype)
        actual = torch.linspace(*to_card((one, other)), steps, dtype=dtype, device="spyre")
        assert actual.dtype == dtype and torch.allclose(actual.cpu(), expected, atol=1e-6)


REDUCTIONS = ["sum", "prod", "amax", "amin"]


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("with_x", [True, False])
def test_scatter_reduce_of_bool(kind, with_x, no_fallbacks):
    x, src = make_tensor(4, 70, dtype=torch.bool), make_tensor(3, 70, dtype=torch.bool)
    index = torch.arange(210).reshape(3, 70) % 4
    actual = x.to("spyre").scatter_reduce(
        0, index.to("spyre"), src.to("spyre"), kind, include_self=with_x
    )
    assert torch.equal(actual.cpu(), x.scatter_reduce(0, index, src, kind, include_self=with_x))


MANY = 2_100  # more than one chunk of rows
FLOATS_AND_INTEGERS = [torch.float32, torch.float16, torch.int64]


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("dtype", mark_heavy(FLOATS_AND_INTEGERS, torch.int64), ids=str)
def test_index_put_accumulates_many_rows(dtype, no_fallbacks):
    x, values = make_tensor(5, 4, 66, dtype=dtype), make_tensor(3, MANY // 3, 66, dtype=dtype)
    first, second = (torch.randint(-limit, limit, (3, MANY // 3)) for limit in (5, 4))

    def added(x, first, second, values):
        return (
            x.index_put((first, second), values, accumulate=True),
            torch.ops.aten.index_put(
                x, [None, second.reshape(-1)], values.reshape(1, MANY, 66), True
            ),
            x[:, 0].index_add(0, first.reshape(-1) % 5, values.reshape(-1, 66)),
        )

    # Sums of about a hundred elements, which are rounded after each chunk.
    assert_close_to_cpu(added, x, first, second, values, units=8, scale=16)


def test_embedding_gradient_of_many_tokens(no_fallbacks):
    tokens, table = torch.randint(0, 50, (3, MANY // 3)), make_tensor(50, 66, dtype=torch.float32)
    weight = make_tensor(3, MANY // 3, 66, dtype=torch.float32)

    def gradient(tokens, table, weight):
        table = table.detach().requires_grad_()
        (torch.nn.functional.embedding(tokens, table, padding_idx=3) * weight).sum().backward()
        return table.grad

    assert_close_to_cpu(gradient, tokens, table, weight, units=8, scale=16)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("kind", ["sum", "prod", "amax", "amin", "mean"])
def test_scatter_reduce_of_many_elements(kind, no_fallbacks):
    places = torch.randint(0, 900, (17_000,))
    values = 1 + make_tensor(17_500, dtype=torch.float32) / 16
    x = make_tensor(1_000, dtype=torch.float32)

    def reduced(x, places, values):
        return (
            x.scatter_reduce(0, places, values, kind),
            x.scatter_reduce(0, places, values, kind, include_self=False),
        )

    assert_close_to_cpu(reduced, x, places, values, units=32)


def test_index_add_does_not_spread_infinities(no_fallbacks):
    places, values = torch.arange(MANY) % 7, torch.zeros(MANY, 3)
    values[7, 0], values[1_500, 1] = math.inf, math.nan  # added to rows 0 and 2
    assert_close_to_cpu(lambda i, v: v.new_zeros(7, 3).index_add(0, i, v), places, values, units=0)


def test_index_put_accumulates_bool(no_fallbacks):
    x, values = make_tensor(6, 70, dtype=torch.bool), make_tensor(3, 70, dtype=torch.bool)
    index = torch.tensor([1, 4, 1])
    assert_close_to_cpu(lambda x, i, v: x.index_put((i,), v, accumulate=True), x, index, values)
    card = x.to("spyre")
    card.index_put_((index.to("spyre"),), values.to("spyre"), accumulate=True)
    assert torch.equal(card.cpu(), x.index_put((index,), values, accumulate=True))
    assert_close_to_cpu(lambda x, i, v: x.index_add(0, i, v), x, index, values)


@pytest.mark.parametrize("kind", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_index_reduce(kind, dtype, no_fallbacks):
    x, rows = make_tensor(5, 4, 9, dtype=dtype), make_tensor(5, 3, 9, dtype=dtype)
    index = torch.tensor([2, 0, 2])
    for with_x in (True, False):
        actual = x.to("spyre").index_reduce(
            1, index.to("spyre"), rows.to("spyre"), kind, include_self=with_x
        )
        expected = x.index_reduce(1, index, rows, kind, include_self=with_x)
        assert torch.allclose(actual.cpu(), expected, rtol=1e-6)


@pytest.mark.parametrize("accumulate", [False, True])
def test_put_and_take(accumulate, no_fallbacks):
    index, values = torch.tensor([[4, -1], [4, 0]]), make_tensor(2, 2, dtype=torch.float32)
    values = values if accumulate else torch.ones_like(values)
    for x in (make_tensor(3, 5, dtype=torch.float32), make_tensor(15, dtype=torch.float32)):
        assert_close_to_cpu(lambda x, i, v: x.put(i, v, accumulate=accumulate), x, index, values)
        card = x.to("spyre")
        card.put_(index.to("spyre"), values.to("spyre"), accumulate=accumulate)
        expected = x.put(index, values, accumulate=accumulate)
        assert torch.equal(card.cpu(), expected)
        assert torch.equal(card.take(index.to("spyre")).cpu(), expected.take(index))

"""Scans, and ops that move or repeat elements, eager and compiled."""

import pytest
import torch
from cpu_reference import assert_close_to_cpu, make_tensor

pytestmark = pytest.mark.usefixtures("no_fallbacks")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_cumsum_of_floats(dtype):
    def both(x):
        return x.cumsum(-1), x.cumsum(0)

    assert_close_to_cpu(both, make_tensor(3, 70, dtype=dtype), units=8, scale=4)


def test_cumsum_of_integers_and_bool_is_exact():
    def all_kinds(x, flags):
        return x.cumsum(1), x.cumsum(0, dtype=torch.int32), flags.cumsum(-1), flags.cumprod(1)

    x = torch.arange(3 * 200).reshape(3, 200) * 1001 - 70000
    assert_close_to_cpu(all_kinds, x, make_tensor(3, 130, dtype=torch.bool))


def test_cumsum_of_long_rows():
    x = (torch.arange(2 * 5000) % 17 - 8).reshape(2, 5000)
    assert_close_to_cpu(lambda x, y: (x.cumsum(1), y.cumsum(1)), x, x.float())


@pytest.mark.parametrize("length", [64, 65, 100, 129])
def test_cumsum_of_one_row_fuses_with_other_ops(length):
    row = torch.arange(length)
    before = torch.spyre.counters()["fallbacks"]
    result = row.to("spyre").cumsum(0) + 1
    assert torch.spyre.counters()["fallbacks"] == before
    assert torch.equal(result.cpu(), row.cumsum(0) + 1)


def test_cumsum_propagates_infinities_only_forward():
    x = torch.ones(200)
    x[70], x[150] = torch.inf, torch.nan
    assert_close_to_cpu(lambda x: (x.cumsum(0), x.cumprod(0)), x)


@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (3, 1)], ids=str)
def test_cumsum_of_small_tensors(shape):
    assert_close_to_cpu(
        lambda x: (x.cumsum(0), x.cumprod(-1)), make_tensor(*shape, dtype=torch.float32)
    )


def test_cumsum_of_views_and_in_place():
    def change(x):
        part = x.t()[3:68:2]
        x[1].cumsum_(0)
        return part.cumsum(0), x.cumprod(0), x

    assert_close_to_cpu(change, make_tensor(4, 70, dtype=torch.float32), units=16)


def test_flip_roll_and_repeat():
    def moved(x, n):
        return (
            x.flip(0),
            n.flip(0, 1),
            x.roll(3, 1),
            n.roll((1, -2), (0, 1)),
            x.roll(5),
            x.repeat(2, 3),
            n.repeat(2, 1, 2),
            x.repeat_interleave(2, 0),
            n.repeat_interleave(3, 1),
        )

    assert_close_to_cpu(moved, make_tensor(3, 70), make_tensor(3, 70, dtype=torch.int64))


def test_eye():
    def made(x):
        return torch.eye(5, 7, device=x.device), torch.eye(70, dtype=x.dtype, device=x.device)

    assert_close_to_cpu(made, make_tensor(3))


def test_integer_powers_and_shifts():
    def computed(x, exponent):
        return (
            x**2,
            x ** exponent.abs(),
            2 ** exponent.abs(),
            torch.pow(x.sign(), exponent),
            x << 3,
            x >> 1,
            x // 3,
            x << exponent.abs(),
        )

    x = make_tensor(3, 70, dtype=torch.int32)
    assert_close_to_cpu(computed, x, make_tensor(70, low=-3, high=3, dtype=torch.int32))


def test_masked_scatter():
    x = make_tensor(4, 70)
    assert_close_to_cpu(lambda x, source: x.masked_scatter(x > 0, source), x, make_tensor(5, 70))
    assert_close_to_cpu(
        lambda x, m, s: x.masked_scatter_(m, s), x, make_tensor(4, 1) > 0, make_tensor(300)
    )


def test_cat_of_tensors_that_share_a_stick():
    def joined(x):
        # The longer way to the first part makes it the last to be written.
        first = (x[:, :40].unsqueeze(-1) + x[:, :40].unsqueeze(-2)).amax(-1)
        return torch.cat([first.exp(), x[:, 40:]], -1), first

    assert_close_to_cpu(joined, make_tensor(3, 70))

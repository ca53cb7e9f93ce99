"""Special functions without an instruction, cumulative extrema, and order statistics."""

import math

import pytest
import torch
from cpu_reference import (
    assert_close,
    assert_close_to_cpu,
    make_tensor,
    mark_heavy,
    rotate_dtypes,
    to_card,
    to_reference,
)

FLOATS = [torch.float16, torch.bfloat16, torch.float32]
WHOLE = [torch.int32, torch.bool, torch.int64]
# With the range of arguments.
FUNCTIONS = {
    torch.atan: (-30.0, 30.0),
    torch.asin: (-1.0, 1.0),
    torch.acos: (-1.0, 1.0),
    torch.asinh: (-300.0, 300.0),
    torch.acosh: (1.0, 300.0),
    torch.atanh: (-0.99, 0.99),
    torch.erfc: (-4.0, 4.0),
    torch.erfinv: (-0.99, 0.99),
    torch.logit: (0.01, 0.99),
}
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e-6, -1e-6, 2.0])


def named(value):
    return getattr(value, "__name__", str(value))


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize(
    ("function", "dtype"), rotate_dtypes(FUNCTIONS, FLOATS, always=torch.float32), ids=named
)
def test_functions_are_accurate_to_ulps(function, dtype, no_fallbacks):
    low, high = FUNCTIONS[function]
    for shape in [(), (7,), (0, 5), (3, 700)]:
        # Relative to the value itself: nothing cancels.
        assert_close_to_cpu(
            function, make_tensor(*shape, low=low, high=high, dtype=dtype), units=8, scale=1e-2
        )
    card = ODD.to(torch.float32).to("spyre")
    assert_close(function(card), function(to_reference(card)), units=8, scale=1e-6)
    view = make_tensor(70, 9, low=low, high=high, dtype=dtype).to("spyre").t()[1::2, 3:68]
    assert_close(function(view), function(to_reference(view)), units=8, scale=1e-2)


def test_erfc_keeps_relative_accuracy(no_fallbacks):
    x = torch.linspace(-2, 9, 5000).to("spyre")
    ratio = torch.erfc(x).cpu().double() / torch.erfc(x.cpu().double())
    assert (ratio - 1).abs().max() < 1e-6
    half = torch.linspace(-2, 4, 5000).half().to("spyre")
    ratio = torch.erfc(half).float().cpu().double() / torch.erfc(half.cpu().double())
    assert (ratio - 1).abs().max() < 2.0**-9


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "function", [torch.atan2, torch.hypot], ids=lambda function: function.__name__
)
def test_binary_functions(function, dtype, no_fallbacks):
    for left, right in [((), ()), ((3, 70), (70,)), ((0, 5), (5,))]:
        assert_close_to_cpu(
            function, make_tensor(*left, dtype=dtype), make_tensor(*right, dtype=dtype), units=8
        )
    one, other = ODD.repeat(len(ODD)), ODD.repeat_interleave(len(ODD))
    card = to_card((one, other))
    assert_close(function(*card), function(*to_reference(card)), units=8)


def test_integers_are_promoted_to_float(no_fallbacks):
    x = torch.arange(-3, 4)
    for function in (torch.atan, torch.asinh):
        assert_close(function(x.to("spyre")), function(x), units=8)
        assert function(x.to("spyre")).dtype == torch.float32


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_distances(p, no_fallbacks):
    for left, right in [((5, 7), (3, 7)), ((2, 30, 70), (2, 33, 70)), ((5, 0), (3, 0))]:
        x, y = make_tensor(*left, dtype=torch.float32), make_tensor(*right, dtype=torch.float32)
        assert_close_to_cpu(lambda x, y: torch.cdist(x, y, p), x, y, units=64)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        *rotate_dtypes((torch.cummin, torch.cummax), FLOATS, always=torch.float32),
        *rotate_dtypes((torch.cummin, torch.cummax), WHOLE, always=torch.int64),
    ],
    ids=named,
)
def test_cummax_and_cummin(function, dtype, no_fallbacks):
    for shape, dim in [((), 0), ((7,), 0), ((0, 5), 1), ((3, 130), 1), ((130, 3), 0), ((2, 1), 1)]:
        assert_close_to_cpu(
            lambda x, dim=dim: tuple(function(x, dim)), make_tensor(*shape, dtype=dtype)
        )
    if dtype.is_floating_point:
        x = torch.tensor([1.0, math.inf, 0.0, math.nan, 2.0, math.nan, -math.inf]).to(dtype)
        assert_close_to_cpu(lambda x: tuple(function(x, 0)), x)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("dtype", FLOATS)
def test_logcumsumexp(dtype, no_fallbacks):
    for shape, dim in [((), 0), ((7,), 0), ((0, 5), 1), ((3, 130), 1), ((130, 3), 0)]:
        x = make_tensor(*shape, low=-30, high=30, dtype=dtype)
        assert_close_to_cpu(lambda x, dim=dim: torch.logcumsumexp(x, dim), x, units=8, scale=4.0)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("dtype", mark_heavy([*FLOATS, torch.int32], torch.bfloat16, torch.float32))
def test_median_and_kthvalue(dtype, no_fallbacks):
    for shape, dim in [((7,), 0), ((3, 130), 1), ((130, 3), 0), ((2, 1), 1)]:
        # No two alike: which of equal ones is found is nobody's promise.
        count = math.prod(shape)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
        x = (order - count // 2).reshape(shape).to(dtype)
        k = (shape[dim] + 2) // 3
        for keepdim in (False, True):
            assert_close_to_cpu(lambda x, d=dim, h=keepdim: tuple(torch.median(x, d, h)), x)
            assert_close_to_cpu(
                lambda x, d=dim, h=keepdim, k=k: tuple(torch.kthvalue(x, k, d, h)), x
            )
        assert_close_to_cpu(torch.median, x)
    if dtype.is_floating_point:
        x = torch.tensor([[1.0, math.nan, 0.0, math.nan], [3.0, 1.0, 2.0, 4.0]]).to(dtype)
        assert_close_to_cpu(lambda x: tuple(torch.median(x, 1)), x)
        assert_close_to_cpu(torch.median, x)


@pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")
def test_kthvalue_rejects_k_out_of_range():
    for k in (0, 4):
        with pytest.raises(RuntimeError, match="out of range"):
            torch.kthvalue(torch.ones(3, device="spyre"), k)


def test_equal_runs_on_the_card(no_fallbacks):
    for dtype in (*FLOATS, torch.int64, torch.bool):
        x = make_tensor(3, 70, dtype=dtype).to("spyre")
        other = x.clone()
        assert torch.equal(x, other) and torch.equal(x.t(), other.t().contiguous())
        other[2, 69] = not other[2, 69] if dtype is torch.bool else 17
        assert not torch.equal(x, other)
        assert not torch.equal(x, other[:, :69])
    odd = torch.tensor([1.0, math.nan], device="spyre")
    assert not torch.equal(odd, odd.clone())
    assert torch.equal(torch.ones(0, 3, device="spyre"), torch.ones(0, 3, device="spyre"))
    assert torch.equal(torch.tensor(2.0, device="spyre"), torch.tensor(2.0, device="spyre"))


@pytest.mark.parametrize("function", [torch.atan2, torch.hypot, torch.pow], ids=named)
@pytest.mark.parametrize("flip", [False, True])
def test_0d_tensor_does_not_promote_the_dtype(function, flip):
    pairs = [(torch.float16, torch.float32), (torch.bfloat16, torch.float16)]
    if function is torch.pow:
        pairs.append((torch.int32, torch.int64))
    for several, one in pairs:
        args = [torch.ones(5, dtype=several), torch.ones((), dtype=one)]
        args = args[::-1] if flip else args
        assert function(*to_card(args)).dtype == function(*args).dtype == several

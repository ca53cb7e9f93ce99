"""Tests of constants in kernels, also beyond the range of float16."""

import pytest
import torch
from cpu_reference import assert_close

HALF_DTYPES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("value", [1e-8, -3e-9, 2.0**-15, 7e-6, 7e4, -1e6, 3e8])
@pytest.mark.parametrize("compiled", [False, True])
def test_small_and_large_constants_are_precise(dtype, value, compiled, no_fallbacks):
    def add_constant(x):
        return (x + value).float()

    torch._dynamo.reset()
    run = torch.compile(add_constant) if compiled else add_constant
    x = torch.zeros(5, dtype=dtype, device="spyre")
    # The card has nine mantissa bits, also where float16 on the host is subnormal or overflows.
    ratio = run(x).cpu().double() / value
    assert (ratio - 1).abs().max() <= 2.0**-10


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_constants_beyond_the_format_saturate_or_underflow(dtype, no_fallbacks):
    x = torch.zeros(3, dtype=dtype, device="spyre")
    infinities = torch.full((3,), float("inf"), dtype=dtype)
    assert torch.equal((x + float("inf")).cpu(), infinities)
    assert torch.equal((x - float("inf")).cpu(), -infinities)
    # A finite constant saturates at the largest finite value, also if it comes in a tensor.
    for value in (1e30, 2e30, 3e30, 4e30, 5e30, 6e30):
        assert not torch.isinf(x + value).any()
        assert torch.equal((x - value).float().cpu(), torch.full((3,), -8_564_768_768.0))
    assert torch.equal((x + 1e-30).cpu(), torch.zeros(3, dtype=dtype))
    assert (x + float("nan")).isnan().all()


def test_division_by_the_epsilon_of_an_optimizer(no_fallbacks):
    x = torch.zeros(70, dtype=torch.bfloat16, device="spyre")
    assert_close(x / (x.sqrt() + 1e-8), torch.zeros(70, dtype=torch.float64))


def add_list(x):
    return x + torch.tensor([float(value) for value in range(40)], device=x.device)


def mutate_list(x):
    values = torch.tensor(list(range(40)), device=x.device)
    values.mul_(2)
    return (x > values.view(1, 40)).sum(1) + values[:3], values


def use_list_in_several_kernels(x):
    rows = torch.tensor([[0.5] * 40] * 40, device=x.device)
    return (x @ rows).softmax(-1) @ rows.t(), rows


@pytest.mark.parametrize("function", [add_list, mutate_list, use_list_in_several_kernels])
def test_tensors_from_literals_are_constants_of_the_graph(function, no_fallbacks):
    """Up to eight elements are constants of kernels; larger tensors are constants of the graph."""
    x = torch.randn(3, 40)
    torch._dynamo.reset()
    run = torch.compile(function)
    for _ in range(2):
        assert_close(run(x.to("spyre")), function(x))

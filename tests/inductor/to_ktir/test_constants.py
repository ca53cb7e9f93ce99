"""Numbers in kernels: the card's format holds them beyond the range that IR writes for 16 bits."""

import pytest
import torch
from comparing import assert_close

HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("value", [1e-8, -3e-9, 2.0**-15, 7e-6, 7e4, -1e6, 3e8])
@pytest.mark.parametrize("compiled", [False, True])
def test_small_and_large_numbers_keep_their_value(dtype, value, compiled, native):
    def sums(x):
        return (x + value).float()

    torch._dynamo.reset()
    run = torch.compile(sums) if compiled else sums
    x = torch.zeros(5, dtype=dtype, device="spyre")
    # Nine bits of fraction, also where float16 on the host has fewer or none.
    ratio = run(x).cpu().double() / value
    assert (ratio - 1).abs().max() <= 2.0**-10


@pytest.mark.parametrize("dtype", HALVES)
def test_numbers_beyond_the_format_saturate_or_vanish(dtype, native):
    x = torch.zeros(3, dtype=dtype, device="spyre")
    infinities = torch.full((3,), float("inf"), dtype=dtype)
    assert torch.equal((x + float("inf")).cpu(), infinities)
    assert torch.equal((x - float("inf")).cpu(), -infinities)
    # A finite number is the largest finite one, also when the number comes in a tensor.
    for value in (1e30, 2e30, 3e30, 4e30, 5e30, 6e30):
        assert not torch.isinf(x + value).any()
        assert torch.equal((x - value).float().cpu(), torch.full((3,), -8_564_768_768.0))
    assert torch.equal((x + 1e-30).cpu(), torch.zeros(3, dtype=dtype))
    assert (x + float("nan")).isnan().all()


def test_an_epsilon_of_an_optimizer_divides(native):
    x = torch.zeros(70, dtype=torch.bfloat16, device="spyre")
    assert_close(x / (x.sqrt() + 1e-8), torch.zeros(70, dtype=torch.float64))


def with_a_list(x):
    return x + torch.tensor([float(each) for each in range(40)], device=x.device)


def with_a_list_that_is_changed(x):
    numbers = torch.tensor(list(range(40)), device=x.device)
    numbers.mul_(2)
    return (x > numbers.view(1, 40)).sum(1) + numbers[:3], numbers


def with_two_lists_for_several_kernels(x):
    rows = torch.tensor([[0.5] * 40] * 40, device=x.device)
    return (x @ rows).softmax(-1) @ rows.t(), rows


@pytest.mark.parametrize(
    "function", [with_a_list, with_a_list_that_is_changed, with_two_lists_for_several_kernels]
)
def test_tensors_written_in_a_function_are_constants_of_its_graph(function, native):
    """Up to eight elements are written into kernels; more are tensors that the graph owns."""
    x = torch.randn(3, 40)
    torch._dynamo.reset()
    run = torch.compile(function)
    for _ in range(2):
        assert_close(run(x.to("spyre")), function(x))

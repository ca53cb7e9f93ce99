"""Training with parameters of 16 bits: gradients are small, and their squares are smaller."""

import copy

import pytest
import torch
from cpu_reference import assert_close
from torch import nn

# Steps are of few ops, the same ones again and again.
pytestmark = pytest.mark.shared_plans

HALF_DTYPES = [torch.float16, torch.bfloat16]
OPTIMIZERS = {
    torch.optim.Adam: "exp_avg_sq",
    torch.optim.AdamW: "exp_avg_sq",
    torch.optim.RMSprop: "square_avg",
    torch.optim.Adagrad: "sum",
    torch.optim.NAdam: "exp_avg_sq",
    torch.optim.Adadelta: "square_avg",
}
WAYS = [{}, {"foreach": False}, {"fused": True}]


def stepped(optimizer, steps=5):
    (param,) = optimizer.param_groups[0]["params"]
    # Down to 1e-6: a square is a thousandth of the smallest SEN169 value.
    grad = torch.logspace(-6, 0, param.numel()).reshape(param.shape)
    for _ in range(steps):
        param.grad = grad.to(param.dtype).to(param.device)
        optimizer.step()
    return param.detach().cpu().double()


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_small_gradients_do_not_cause_large_steps(make, way, dtype, no_fallbacks):
    if "fused" in way and make in (torch.optim.RMSprop, torch.optim.NAdam, torch.optim.Adadelta):
        pytest.skip("PyTorch has no such way")
    start = torch.linspace(-1, 1, 3 * 70).reshape(3, 70).to(dtype)
    expected = stepped(make([nn.Parameter(start.double())], lr=0.01))
    actual = stepped(make([nn.Parameter(start.to("spyre"))], lr=0.01, **way))
    # Each of five steps rounds the parameter and its update to nine fraction bits.
    assert (actual - expected).abs().max() <= 5 * 2.0**-10 * 1.1 + 2.0**-8 * (
        expected - start
    ).abs().max()


def test_second_moments_are_stored_and_loaded_in_float32(no_fallbacks):
    param = nn.Parameter(torch.ones(3, 70, dtype=torch.bfloat16, device="spyre"))
    optimizer = torch.optim.AdamW([param], amsgrad=True)
    stepped(optimizer)
    state = optimizer.state[param]
    assert state["exp_avg"].dtype == torch.bfloat16
    assert state["exp_avg_sq"].dtype == state["max_exp_avg_sq"].dtype == torch.float32
    again = torch.optim.AdamW([param], amsgrad=True)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for name, value in again.state[param].items():
        assert value.dtype == state[name].dtype and torch.equal(value.cpu(), state[name].cpu())


def test_optimizer_state_dtype_is_unchanged_for_other_devices_and_dtypes():
    for param in (
        nn.Parameter(torch.ones(3, dtype=torch.bfloat16)),
        nn.Parameter(torch.ones(3, device="spyre")),
    ):
        optimizer = torch.optim.AdamW([param])
        stepped(optimizer)
        assert optimizer.state[param]["exp_avg_sq"].dtype == param.dtype


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_half_precision_matmul_accumulates_into_a_float32_sum(dtype, no_fallbacks):
    total = torch.zeros(5, device="spyre")
    small = torch.full((5,), 2.0**-17, dtype=dtype, device="spyre")
    total.addcmul_(small, small, value=0.5)
    assert torch.equal(total.cpu(), torch.full((5,), 2.0**-35))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: torch.addcmul(x, y, y))
    assert torch.equal(compiled(total, small).cpu(), torch.full((5,), 3 * 2.0**-35))


@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("order", [2, 3, 0.5, 1, float("inf")])
def test_norm_of_small_gradients_does_not_underflow(order, dtype, no_fallbacks):
    """Squares of 1e-6 are below the smallest 16-bit float of the card."""
    x = torch.linspace(1e-6, 2e-5, 210).reshape(3, 70).to(dtype).to("spyre")

    def norms(x):
        return torch.linalg.vector_norm(x, order), torch.linalg.vector_norm(x, order, 1)

    for actual in (norms(x), torch.compile(norms)(x)):
        assert_close(actual, norms(x.cpu().double()), units=2, scale=0)


def test_norm_of_negative_order_with_a_zero_is_zero(no_fallbacks):
    x = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float16, device="spyre")
    assert torch.linalg.vector_norm(x, -2).item() == 0.0


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_clip_grad_norm_of_small_gradients(dtype, no_fallbacks):
    params = [nn.Parameter(torch.zeros(70, dtype=dtype, device="spyre")) for _ in range(2)]
    for param in params:
        param.grad = torch.full_like(param, 1e-5)
    norm = nn.utils.clip_grad_norm_(params, 1e-5).cpu().double()
    gradient = torch.tensor(1e-5, dtype=dtype).to("spyre").cpu().double()
    assert_close(norm.to(dtype), gradient * 140**0.5, units=4, scale=0)
    clipped = torch.full((70,), 1.0, dtype=torch.float64) * 1e-5 / 140**0.5
    # The epsilon that PyTorch adds to the norm.
    clipped = clipped * (norm / (norm + 1e-6))
    for param in params:
        assert_close(param.grad, clipped, units=8, scale=0)


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_std_of_small_values_does_not_underflow(dtype, no_fallbacks):
    x = torch.linspace(-2e-5, 2e-5, 210).reshape(3, 70).to(dtype).to("spyre")

    def deviations(x):
        return x.std(), x.std(1, keepdim=True), torch.std_mean(x, 0, correction=0)

    for actual in (deviations(x), torch.compile(deviations)(x)):
        assert_close(actual, deviations(x.cpu().double()), units=4, scale=2e-5)

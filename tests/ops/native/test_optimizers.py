"""Optimizers on the card against the CPU in float64: every way PyTorch has to run them."""

import pytest
import torch
from torch import nn

# Steps are of few ops, the same ones again and again.
pytestmark = pytest.mark.shared_plans

SHAPES = [(130, 70), (64,), (7,), (3, 4, 5), (), (0, 3)]
SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
ADAGRAD, RMSPROP = torch.optim.Adagrad, torch.optim.RMSprop
SETTINGS = {
    "sgd": (SGD, {"lr": 0.1}),
    "sgd momentum": (SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd nesterov": (SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "sgd dampening": (SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    "adam": (ADAM, {"lr": 0.01, "weight_decay": 0.1}),
    "adam amsgrad": (ADAM, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "adamw": (ADAMW, {"lr": 0.01}),
    "adamw amsgrad": (ADAMW, {"lr": 0.01, "amsgrad": True}),
    "adamw without momentum": (ADAMW, {"lr": 0.01, "betas": (0.0, 0.99)}),
    "adagrad": (ADAGRAD, {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1}),
    "rmsprop": (RMSPROP, {"lr": 0.01}),
    "rmsprop centered": (RMSPROP, {"lr": 0.01, "centered": True, "momentum": 0.9}),
}
WAYS = [{}, {"foreach": False}, {"foreach": True}, {"fused": True}, {"capturable": True}]
# float32: some roundings in each of the steps; the second moment's root doubles none of them.
TOLERANCE = 2.0**-17


def parameters(device, dtype):
    generator = torch.Generator().manual_seed(0)
    return [
        nn.Parameter(torch.randn(shape, generator=generator).to(dtype).to(device))
        for shape in SHAPES
    ]


def stepped(optimizer, steps=7, run=None, scaled=1.0, scale_of_lr=None):
    generator = torch.Generator().manual_seed(1)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for step in range(steps):
        for tensor in parameters:
            grad = 0.1 * torch.randn(tensor.shape, generator=generator)
            tensor.grad = (grad * scaled).to(tensor.device, tensor.dtype)
        if scale_of_lr is not None:
            optimizer.param_groups[0]["lr"] = 0.01 * scale_of_lr(step)
        (run or optimizer.step)()
    return [parameter.detach().cpu().double() for parameter in parameters]


def assert_near(actual, expected, tolerance=TOLERANCE):
    for one, other in zip(actual, expected, strict=True):
        assert (one - other).norm() <= tolerance * other.norm()


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", SETTINGS)
def test_steps_match_the_cpu(name, way, no_fallbacks):
    make, settings = SETTINGS[name]
    if ("fused" in way and make is RMSPROP) or ("capturable" in way and make in (SGD, ADAGRAD)):
        pytest.skip("PyTorch has no such way")
    expected = stepped(make(parameters("cpu", torch.float64), **settings))
    assert_near(stepped(make(parameters("spyre", torch.float32), **settings, **way)), expected)


@pytest.mark.parametrize("make", [SGD, ADAM, ADAMW, ADAGRAD])
def test_fused_step_is_one_launch_per_parameter(make, no_fallbacks):
    x = nn.Parameter(torch.ones(130, 70, device="spyre"))
    settings = {"momentum": 0.9} if make is SGD else {}
    optimizer = make([x], lr=0.01, fused=True, **settings)
    for _ in range(3):
        x.grad = torch.ones_like(x)
        optimizer.step()
    before = torch.spyre.counters()
    optimizer.step()
    after = torch.spyre.counters()
    # One fills a tensor with the learning rate. One more counts the steps, which is on the card:
    # nothing waits for it.
    assert after["launches"] - before["launches"] == (2 if make is SGD else 3)
    assert after["d2h_bytes"] == before["d2h_bytes"]


@pytest.mark.parametrize(
    "way", [{"foreach": False}, {"fused": True}, {"capturable": True}], ids=str
)
def test_learning_rate_may_change_and_may_be_a_tensor(way, no_fallbacks):
    def falling(step):
        return 1 / (1 + step)

    expected = stepped(ADAMW(parameters("cpu", torch.float64), lr=0.01), scale_of_lr=falling)
    actual = stepped(ADAMW(parameters("spyre", torch.float32), lr=0.01, **way), scale_of_lr=falling)
    assert_near(actual, expected)

    def falling_tensor(step):
        return torch.tensor(1 / (1 + step), device="cpu" if "foreach" in way else "spyre")

    actual = stepped(
        ADAMW(parameters("spyre", torch.float32), lr=torch.tensor(0.01), **way),
        scale_of_lr=falling_tensor,
    )
    assert_near(actual, expected)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("way", [{}, {"fused": True}, {"capturable": True}], ids=str)
@pytest.mark.parametrize("make", [SGD, ADAMW])
def test_compiled_steps(make, way, no_fallbacks):
    if make is SGD and "capturable" in way:
        pytest.skip("PyTorch has no such way")
    torch._dynamo.reset()
    expected = stepped(make(parameters("cpu", torch.float64), lr=0.01))
    optimizer = make(parameters("spyre", torch.float32), lr=0.01, **way)
    assert_near(stepped(optimizer, run=torch.compile(optimizer.step)), expected)


@pytest.mark.parametrize("way", [{}, {"fused": True}], ids=str)
@pytest.mark.parametrize("make", [SGD, ADAM, ADAGRAD])
def test_grad_scaler_skips_steps_that_overflow(make, way, no_fallbacks):
    expected = stepped(make(parameters("cpu", torch.float64), lr=0.01))
    optimizer = make(parameters("spyre", torch.float32), lr=0.01, **way)
    scaler = torch.amp.GradScaler("spyre", init_scale=2.0**10)
    scaler.scale(torch.ones((), device="spyre"))

    def run():
        scaler.step(optimizer)
        scaler.update()

    assert_near(stepped(optimizer, run=run, scaled=2.0**10), expected)
    # Gradients that overflow change nothing, not even the count of steps.
    before = [parameter.detach().cpu().clone() for parameter in optimizer.param_groups[0]["params"]]
    for tensor in optimizer.param_groups[0]["params"]:
        tensor.grad = torch.full_like(tensor, float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**9
    for tensor, old in zip(optimizer.param_groups[0]["params"], before, strict=True):
        assert torch.equal(tensor.detach().cpu(), old)
    for state in optimizer.state.values():
        assert float(state.get("step", 7)) == 7


@pytest.mark.parametrize("foreach", [False, True])
def test_gradient_clipping(foreach, no_fallbacks):
    given = {}
    for device, dtype in (("cpu", torch.float64), ("spyre", torch.float32)):
        actual = parameters(device, dtype)
        for parameter in actual:
            parameter.grad = parameter.detach().clone()
        norm = nn.utils.clip_grad_norm_(actual, 1.0, foreach=foreach)
        given[device] = [norm, *(parameter.grad for parameter in actual)]
        nn.utils.clip_grad_value_(actual, 0.01, foreach=foreach)
        given[device] += [parameter.grad for parameter in actual]
    assert_near([parameter.cpu().double() for parameter in given["spyre"]], given["cpu"])


def test_fused_steps_reject_invalid_arguments(no_fallbacks):
    x = nn.Parameter(torch.ones(3, device="spyre"))
    with pytest.raises(RuntimeError, match="differentiable"):
        ADAM([x], fused=True, differentiable=True)
    with pytest.raises(RuntimeError, match="size"):
        torch._fused_sgd_(
            [x.detach()],
            [torch.ones(4, device="spyre")],
            [],
            weight_decay=0.0,
            momentum=0.0,
            lr=0.1,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=True,
        )

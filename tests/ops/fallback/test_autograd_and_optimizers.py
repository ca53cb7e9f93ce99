"""torch.autograd, torch.func and torch.optim on the card, against the CPU."""

import copy

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]


def normal(*shape, device="cpu"):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(device)


def assert_agree(compute):
    """Both devices run the same float32 kernels, so only the order of sums may differ."""
    for actual, expected in zip(
        tree_leaves(compute("spyre")), tree_leaves(compute("cpu")), strict=True
    ):
        assert actual.device.type == "spyre" and actual.dtype == expected.dtype
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)


# --- Autograd -----------------------------------------------------------------------------------

SMOOTH = {
    "batch norm": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "layer norm": (lambda: nn.LayerNorm(3), (4, 3)),
    "group norm": (lambda: nn.GroupNorm(1, 3), (4, 3)),
    "gelu": (nn.GELU, (4, 3)),
    "silu": (nn.SiLU, (4, 3)),
    "mish": (nn.Mish, (4, 3)),
    "softmax": (lambda: nn.Softmax(1), (4, 3)),
    "linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3, padding=1), (1, 2, 4, 4)),
    "transposed conv2d": (lambda: nn.ConvTranspose2d(2, 2, 3), (1, 2, 3, 3)),
    "average pool": (lambda: nn.AvgPool1d(2), (1, 2, 6)),
    "max pool": (lambda: nn.MaxPool1d(2), (1, 2, 6)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_second_order_gradients(name):
    make, shape = SMOOTH[name]
    torch.manual_seed(0)
    module = make()

    def compute(device):
        m = copy.deepcopy(module).to(device)
        x = normal(*shape, device=device).requires_grad_()
        (first,) = torch.autograd.grad(m(x).pow(3).sum(), x, create_graph=True)
        first.square().sum().backward()
        return [x.grad, *(p.grad for p in m.parameters() if p.grad is not None)]

    for actual, expected in zip(compute("spyre"), compute("cpu"), strict=True):
        scale = expected.abs().max().item()
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5 * max(scale, 1.0))


def test_custom_autograd_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 3 * x * x

    def compute(device):
        x = normal(5, device=device).requires_grad_()
        Cube.apply(x).sum().backward()
        return x.grad

    assert_agree(compute)


def test_hooks():
    def compute(device):
        torch.manual_seed(0)
        seen = []
        module = nn.Linear(3, 2).to(device)
        module.register_forward_hook(lambda m, given, result: result * 2)
        module.register_full_backward_hook(lambda m, before, after: (before[0] * 5,))
        module.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        x = normal(4, 3, device=device).requires_grad_()
        x.register_hook(lambda gradient: gradient * 3)
        module(x).sum().backward()
        return [x.grad, *seen]

    assert_agree(compute)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_recomputes_the_same_dropout_mask(reentrant):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2)).to("spyre")
    gradients = []
    for run in (module, lambda x: checkpoint(module, x, use_reentrant=reentrant)):
        module.zero_grad()
        x = normal(3, 4, device="spyre").requires_grad_()
        torch.spyre.manual_seed(7)
        run(x).square().sum().backward()
        gradients.append([x.grad, *(p.grad for p in module.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one.cpu(), other.cpu())


def test_backward_through_views_and_in_place_ops():
    def compute(device):
        x = normal(4, 6, device=device).requires_grad_()
        y = x.clone()
        y[1:, ::2].mul_(2)
        y.t()[3].add_(y[0, :4])
        y.diagonal().copy_(x.diagonal() * 3)
        y.view(2, 12).select_scatter(y.view(2, 12)[0] * 2, 0, 1).square().sum().backward()
        return x.grad

    assert_agree(compute)


def test_in_place_change_of_a_saved_tensor_raises():
    x = torch.ones(3, device="spyre", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_error_in_backward_propagates_and_leaves_autograd_usable():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return torch.mm(gradient, gradient)

    x = torch.ones(3, device="spyre", requires_grad=True)
    with pytest.raises(RuntimeError, match="must be a matrix|matrices expected"):
        Fails.apply(x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_forward_mode():
    def compute(device):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(normal(5, device=device), normal(5, device=device) * 2)
            return forward_ad.unpack_dual((x.exp() * x).softmax(0)).tangent

    assert_agree(compute)


# --- torch.func ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compute",
    [
        lambda d: grad(lambda x: (x.sin() * x).sum())(normal(5, device=d)),
        lambda d: vmap(lambda x: x.softmax(0) * 2)(normal(4, 5, device=d)),
        lambda d: vmap(torch.mm)(normal(4, 5, 5, device=d), normal(4, 5, 5, device=d)),
        lambda d: vmap(grad(lambda x: (x.sin() * x).sum()))(normal(4, 5, device=d)),
        lambda d: jvp(lambda x: x.sin() * x, (normal(5, device=d),), (normal(5, device=d),)),
        lambda d: vjp(lambda x: x.sin() * x, normal(5, device=d))[1](normal(5, device=d)),
        lambda d: hessian(lambda x: (x.sin() * x).sum())(normal(5, device=d)),
        lambda d: jacrev(lambda x: x.sin() @ x.view(5, 1))(normal(5, device=d)),
        lambda d: jacfwd(lambda x: x.cos() * x)(normal(5, device=d)),
    ],
)
def test_function_transforms(compute):
    assert_agree(compute)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), (6, 4)),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(0)), (3, 1, 4, 4)),
    ],
)
def test_per_sample_gradients(make, shape):
    torch.manual_seed(0)
    module = make()

    def compute(device):
        there = copy.deepcopy(module).to(device)
        parameters = {name: p.detach() for name, p in there.named_parameters()}

        def loss(parameters, x):
            return functional_call(there, parameters, (x[None],)).square().sum()

        actual = vmap(grad(loss), in_dims=(None, 0))(parameters, normal(*shape, device=device))
        return list(actual.values())

    assert_agree(compute)


# --- Optimizers ---------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p, **how: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, **how),
    "adam": lambda p, **how: torch.optim.Adam(p, 0.01, amsgrad=True, **how),
    "adamw": lambda p, **how: torch.optim.AdamW(p, 0.01, **how),
    "adagrad": lambda p, **how: torch.optim.Adagrad(p, 0.01, **how),
    "rmsprop": lambda p, **how: torch.optim.RMSprop(p, 0.01, centered=True, **how),
    "nadam": lambda p, **how: torch.optim.NAdam(p, 0.01, **how),
    "adamax": lambda p, **how: torch.optim.Adamax(p, 0.01, **how),
    "adadelta": lambda p, **how: torch.optim.Adadelta(p, **how),
    "rprop": lambda p, **how: torch.optim.Rprop(p, 0.01, **how),
    "asgd": lambda p, **how: torch.optim.ASGD(p, 0.01, **how),
    "lbfgs": lambda p: torch.optim.LBFGS(p, 0.1),
}
WAYS = [
    *((name, {}) for name in OPTIMIZERS),
    *((name, {"foreach": True}) for name in OPTIMIZERS if name != "lbfgs"),
    *((name, {"foreach": False}) for name in OPTIMIZERS if name != "lbfgs"),
    *((name, {"fused": True}) for name in ("sgd", "adam", "adamw")),
]


def train(device, make_optimizer, steps=4):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    optimizer = make_optimizer(module.parameters())
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(module(normal(16, 4, device=device)), normal(16, 2, device=device))
        loss.backward()
        losses.append(loss.detach())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    optimizer.step(closure)
    return [*losses, *module.parameters()]


@pytest.mark.parametrize(("name", "how"), WAYS, ids=str)
def test_training_steps_match_the_cpu(name, how):
    assert_agree(lambda device: train(device, lambda p: OPTIMIZERS[name](p, **how)))


@pytest.mark.parametrize("how", [{}, {"foreach": True}, {"norm_type": float("inf")}], ids=str)
def test_gradient_clipping(how):
    def compute(device):
        torch.manual_seed(0)
        module = nn.Linear(4, 3).to(device)
        module(normal(5, 4, device=device)).square().sum().backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.5, **how)
        clipped = [p.grad.clone() for p in module.parameters()]
        nn.utils.clip_grad_value_(module.parameters(), 0.1)
        return [norm, *clipped, *(p.grad for p in module.parameters())]

    assert_agree(compute)


def test_mixed_precision_training_lowers_the_loss():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to("spyre")
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    scaler = torch.amp.GradScaler("spyre", init_scale=128.0)
    x, y = normal(32, 8, device="spyre"), normal(32, 1, device="spyre")
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        with torch.autocast("spyre", dtype=torch.float16):
            loss = F.mse_loss(module(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert module[0].weight.dtype == torch.float32
    assert losses[-1] < 0.8 * losses[0]


def test_averaged_models():
    def compute(device):
        torch.manual_seed(0)
        module = nn.Linear(3, 2).to(device)
        average = torch.optim.swa_utils.AveragedModel(
            module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        for _ in range(3):
            with torch.no_grad():
                module.weight.mul_(0.5)
            average.update_parameters(module)
        return list(average.parameters())

    assert_agree(compute)

"""Batch, instance and group norms: values, gradients and running statistics."""

import copy

import pytest
import torch
from cpu_reference import (
    assert_close,
    assert_gradients_close_to_cpu,
    make_tensor,
    to_card,
    to_reference,
)
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.usefixtures("no_fallbacks")

MODULES = {
    "batch": (lambda: nn.BatchNorm2d(6), (4, 6, 5, 7)),
    "batch 1d": (lambda: nn.BatchNorm1d(70, affine=False), (4, 70)),
    "batch 3d without statistics": (
        lambda: nn.BatchNorm3d(3, track_running_stats=False),
        (4, 3, 2, 3, 4),
    ),
    "instance": (lambda: nn.InstanceNorm2d(6), (3, 6, 5, 7)),
    "instance with statistics": (
        lambda: nn.InstanceNorm1d(6, affine=True, track_running_stats=True),
        (3, 6, 9),
    ),
    "group": (lambda: nn.GroupNorm(3, 6), (4, 6, 5, 7)),
    "group without weights": (lambda: nn.GroupNorm(2, 6, affine=False), (4, 6, 9)),
}


def filled(make):
    module = make()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(make_tensor(*parameter.shape))
    return module


def check_module(module, x, units=8):
    """Values, gradients and buffers after a step, eager and compiled."""
    reference = copy.deepcopy(module).double()
    wide = to_reference(to_card(x)).requires_grad_()
    expected = reference(wide)
    # Nothing like the input: of that little would be left.
    generator = torch.Generator().manual_seed(1)
    upstream = torch.rand(expected.shape, generator=generator).to(x.dtype)
    expected.backward(upstream.double())
    for compiled in (False, True):
        torch._dynamo.reset()
        ours = copy.deepcopy(module).to("spyre", x.dtype)
        given = x.to("spyre").requires_grad_()
        actual = (torch.compile(ours, dynamic=False) if compiled else ours)(given)
        actual.backward(upstream.to("spyre"))
        pairs = [(actual, expected), (given.grad, wide.grad)]
        parameters = zip(ours.parameters(), reference.parameters(), strict=True)
        pairs += [(one.grad, other.grad) for one, other in parameters]
        pairs += list(zip(ours.buffers(), reference.buffers(), strict=True))
        for one, other in pairs:
            assert_close(one, other, units, max(1.0, other.abs().max().item()))


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("name", MODULES)
def test_training(name):
    make, size = MODULES[name]
    check_module(filled(make), make_tensor(*size, low=1, high=5, dtype=torch.float32))


@pytest.mark.parametrize("name", ["batch", "instance with statistics"])
def test_evaluation_uses_the_statistics(name):
    make, size = MODULES[name]
    module = filled(make).eval()
    with torch.no_grad():
        module.running_mean += 0.5
        module.running_var *= 1.5
    check_module(module, make_tensor(*size, dtype=torch.float32))


@pytest.mark.parametrize("name", ["batch", "group"])
def test_half_precision(name):
    make, size = MODULES[name]
    check_module(filled(make), make_tensor(*size))


def test_channels_last():
    x = make_tensor(4, 6, 5, 7, dtype=torch.float32).contiguous(memory_format=torch.channels_last)
    check_module(filled(MODULES["batch"][0]), x)


def test_cumulative_moving_average_of_statistics():
    module = nn.BatchNorm2d(6, momentum=None).to("spyre")
    reference = nn.BatchNorm2d(6, momentum=None).double()
    for shift in range(3):
        x = make_tensor(4, 6, 5, 7, dtype=torch.float32) + shift
        module(x.to("spyre"))
        reference(x.double())
    assert module.num_batches_tracked.item() == 3
    assert_close(module.running_mean, reference.running_mean)
    assert_close(module.running_var, reference.running_var)


def test_functional_and_mutating_batch_norm_ops():
    x = make_tensor(4, 6, 5, dtype=torch.float32)
    weight, bias, mean, var = (make_tensor(6, low=0.5, dtype=torch.float32) + n for n in range(4))
    aten = torch.ops.aten
    for op in (aten._batch_norm_with_update, aten._batch_norm_no_update):
        # The CPU has kernels for both, with statistics of 16-bit floats or float32.
        on_cpu, ours = (mean.clone(), var.clone()), to_card((mean, var))
        expected = op(x, weight, bias, *on_cpu, 0.1, 1e-5)
        actual = op(*to_card((x, weight, bias)), *ours, 0.1, 1e-5)
        assert_close(actual[0], expected[0])
        assert_close(ours, on_cpu)
        wide = [x, x, weight, *on_cpu, *expected[1:3], op is aten._batch_norm_with_update, 1e-5]
        gradients = aten.batch_norm_backward(*wide, [True] * 3, expected[3])
        card = [*to_card((x, x, weight)), *ours, *actual[1:3], wide[7], 1e-5]
        card_gradients = aten.batch_norm_backward(*card, [True] * 3, actual[3])
        assert_close(card_gradients, gradients, scale=40.0)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_have_the_shape_of_the_meta_kernel(training):
    aten = torch.ops.aten
    for op in (aten.native_batch_norm, aten._native_batch_norm_legit):

        def shapes(op=op):
            x = torch.ones(4, 6, 5, device="spyre")
            given = [torch.ones(6, device="spyre") for _ in range(4)]
            return [result.shape for result in op(x, *given, training, 0.1, 1e-5)]

        with FakeTensorMode():
            foretold = shapes()
        assert shapes() == foretold == [(4, 6, 5), (6,), (6,)]


def test_group_norm_gradients_of_values_far_from_zero():
    # Sums of squares of these differ only by a few float32 ulps.
    x = make_tensor(2, 6, 8, 8, low=999, high=1001, dtype=torch.float32)
    weight = make_tensor(6, dtype=torch.float32)
    norm = nn.functional.group_norm
    assert_gradients_close_to_cpu(lambda x, weight: norm(x, 2, weight), x, weight, units=4096)


def test_empty_batch_has_gradients():
    module = nn.BatchNorm2d(6).to("spyre")
    x = torch.zeros(0, 6, 5, 7, device="spyre", requires_grad=True)
    result = module(x)
    result.sum().backward()
    assert result.shape == x.grad.shape == (0, 6, 5, 7)
    assert torch.equal(module.weight.grad.cpu(), torch.zeros(6))
    with pytest.raises(RuntimeError, match="6 channels"):
        nn.functional.batch_norm(x, torch.zeros(5, device="spyre"), torch.ones(5, device="spyre"))


def test_symbolic_sizes():
    torch._dynamo.reset()
    module = filled(MODULES["batch"][0])
    ours = copy.deepcopy(module).to("spyre")
    compiled = torch.compile(ours, dynamic=True)
    for batch in (3, 5):
        x = make_tensor(batch, 6, 4, 3, dtype=torch.float32)
        assert_close(compiled(x.to("spyre")), copy.deepcopy(module).double()(x.double()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm(dim, dtype):
    size = [1, 1, 1]
    size[dim] = (4, 6, 70)[dim]
    direction, length = make_tensor(4, 6, 70, dtype=dtype), make_tensor(*size, dtype=dtype)
    assert_gradients_close_to_cpu(
        lambda v, g: torch._weight_norm(v, g, dim), direction, length, units=16
    )

"""Values for the card, and what must come of them there."""

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_spyre.testing.tolerances import ULP_OF_ONE


def numbers(*shape, low=-2.0, high=2.0, dtype=torch.float16):
    """The same for the same shape, wherever it is asked for."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    values = torch.rand(shape, generator=generator) * (high - low) + low
    if dtype is torch.bool:
        return values > 0
    return values.to(dtype) if dtype.is_floating_point else (3 * values).round().to(dtype)


def on_card(tree):
    return tree_map(lambda each: each.to("spyre") if isinstance(each, torch.Tensor) else each, tree)


def exact(tree):
    """What the card holds, in types that round little."""

    def widened(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        host = leaf.detach().cpu()
        return host.double() if host.is_floating_point() else host

    return tree_map(widened, tree)


def assert_close(got, wanted, units=4, scale=1.0):
    """Within units of the type's last place, of the wanted value or `scale`."""
    for one, other in zip(tree_leaves(got), tree_leaves(wanted), strict=True):
        assert one.shape == other.shape
        one = one.detach().cpu()
        if not one.is_floating_point():
            assert torch.equal(one, other.to(one.dtype)), (one, other)
            continue
        one, other, unit = one.double(), other.detach().double(), ULP_OF_ONE[one.dtype]
        same = (one == other) | (one.isnan() & other.isnan())
        near = (one - other).abs() <= units * unit * (other.abs() + scale)
        assert bool((same | near).all()), (one - other).abs().nan_to_num(nan=9e9).max()


def check_both(function, *args, units=4, scale=0.25):
    """Eager and compiled against the CPU, which computes with what the card holds.

    What the function changes must be among its results.
    """
    reference = exact(on_card(args))
    wanted = function(*reference)
    types = [each.dtype for each in tree_leaves(function(*tree_map(_copied, args)))]
    for call in (function, torch.compile(function, dynamic=False)):
        torch._dynamo.reset()
        got = call(*on_card(args))
        assert [each.dtype for each in tree_leaves(got)] == types
        assert all(each.device.type == "spyre" for each in tree_leaves(got))
        assert_close(got, wanted, units, scale)


def with_heavy(cases, *heavy):
    """Cases; those whose parts others have too are for `make test-full`."""
    assert set(heavy) <= set(cases)
    mark = pytest.mark.heavy
    return [pytest.param(each, marks=mark if each in heavy else ()) for each in cases]


def in_turn(cases, types, always):
    """Pairs: every case with the type `always` and with one of the others; the rest is heavy."""
    others = [each for each in types if each is not always]
    found = []
    for place, case in enumerate(cases):
        quick = (always, others[place % len(others)])
        heavy = [each for each in types if each not in quick]
        found += [pytest.param(case, each) for each in quick]
        found += [pytest.param(case, each, marks=pytest.mark.heavy) for each in heavy]
    return found


def check_gradients(function, *args, units=8):
    """Values and gradients, eager and compiled, of tensors; the others are arguments as they are.

    Errors are measured by the largest element of each result: that is what sums are made of.
    """
    reference = [_watched(each) for each in exact(on_card(args))]
    wanted = function(*reference)
    generator = torch.Generator().manual_seed(1)
    upstream = torch.rand(wanted.shape, generator=generator).to(args[0].dtype)
    exactly = [wanted, *_gradients(wanted, reference, upstream.double())]
    for call in (function, torch.compile(function, dynamic=False)):
        torch._dynamo.reset()
        given = [_watched(each) for each in on_card(args)]
        got = call(*given)
        found = [got, *_gradients(got, given, upstream.to("spyre"))]
        for one, other in zip(found, exactly, strict=True):
            assert one.device.type == "spyre" and one.dtype == args[0].dtype
            largest = other.detach().abs().max().item() if other.numel() else 0.0
            assert_close(one, other, units, max(largest, 0.25))


def _watched(leaf):
    return leaf.detach().requires_grad_() if isinstance(leaf, torch.Tensor) else leaf


def _gradients(result, given, upstream):
    return torch.autograd.grad(result, [e for e in given if isinstance(e, torch.Tensor)], upstream)


def _copied(leaf):
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def counted(call, *args):
    """What one call counts, and what it gives."""
    torch.spyre.synchronize()
    before = torch.spyre.counters()
    result = call(*args)
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    return {name: after[name] - before[name] for name in after}, result

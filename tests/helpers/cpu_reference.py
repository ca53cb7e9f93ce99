"""Make tensors for the card, and compare results of the card with a CPU reference."""

import os
import zlib

import pytest
import run_scope
import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_spyre.testing.tolerances import ULP_OF_ONE


def make_tensor(*shape, low=-2.0, high=2.0, dtype=torch.float16):
    """Return a tensor of random values, which are the same for the same shape."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    values = torch.rand(shape, generator=generator) * (high - low) + low
    if dtype is torch.bool:
        return values > 0
    return values.to(dtype) if dtype.is_floating_point else (3 * values).round().to(dtype)


def to_card(tree):
    """Copy the tensors of a tree to the card."""
    return tree_map(lambda leaf: leaf.to("spyre") if isinstance(leaf, torch.Tensor) else leaf, tree)


def to_reference(tree):
    """Copy the tensors of a tree to the CPU, floats as float64, to compute a reference."""

    def widened(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        host = leaf.detach().cpu()
        return host.double() if host.is_floating_point() else host

    return tree_map(widened, tree)


def assert_close(actual, expected, units=4, scale=1.0):
    """Assert that float leaves differ by at most `units` ulps of |expected| + `scale`.

    Other leaves must be equal.
    """
    for result, reference in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        assert result.shape == reference.shape
        result = result.detach().cpu()
        if not result.is_floating_point():
            assert torch.equal(result, reference.to(result.dtype)), (result, reference)
            continue
        ulp = ULP_OF_ONE[result.dtype]
        result, reference = result.double(), reference.detach().double()
        is_equal = (result == reference) | (result.isnan() & reference.isnan())
        error = (result - reference).abs()
        is_close = error <= units * ulp * (reference.abs() + scale)
        assert bool((is_equal | is_close).all()), error.nan_to_num(nan=9e9).max()


def assert_close_to_cpu(function, *args, units=4, scale=0.25):
    """Assert that eager and compiled results on the card are close to the CPU's.

    The CPU computes in float64 with the values on the card. A function that mutates an argument
    must return it.
    """
    expected = function(*to_reference(to_card(args)))
    dtypes = [leaf.dtype for leaf in tree_leaves(function(*tree_map(_copied, args)))]
    for call in _calls(function):
        torch._dynamo.reset()
        actual = call(*to_card(args))
        assert [leaf.dtype for leaf in tree_leaves(actual)] == dtypes
        assert all(leaf.device.type == "spyre" for leaf in tree_leaves(actual))
        assert_close(actual, expected, units, scale)


def _calls(function):
    """Return the function for eager calls, and the compiled function.

    A quick run uses one of the two in each case of a parametrized test.
    """
    calls = (function, torch.compile(function, dynamic=False))
    test = os.environ["PYTEST_CURRENT_TEST"].rsplit(" ", 1)[0]
    if not run_scope.is_quick or "[" not in test:
        return calls
    return calls[zlib.crc32(test.encode()) % 2 :][:1]


def mark_heavy(cases, *heavy):
    """Return parameters of a test; only `make test-full` runs the cases in `heavy`."""
    assert set(heavy) <= set(cases)
    mark = pytest.mark.heavy
    return [pytest.param(case, marks=mark if case in heavy else ()) for case in cases]


def rotate_dtypes(cases, types, always):
    """Return pairs of cases and dtypes; most pairs are marked heavy.

    The pairs without the mark combine each case with `always` and with one other dtype, which
    varies from case to case.
    """
    varying = [dtype for dtype in types if dtype is not always]
    pairs = []
    for index, case in enumerate(cases):
        quick = (always, varying[index % len(varying)])
        heavy = [dtype for dtype in types if dtype not in quick]
        pairs += [pytest.param(case, dtype) for dtype in quick]
        pairs += [pytest.param(case, dtype, marks=pytest.mark.heavy) for dtype in heavy]
    return pairs


def assert_gradients_close_to_cpu(function, *args, units=8):
    """Assert that eager and compiled results and gradients are close to the CPU's.

    The tolerance is relative to the largest element of each tensor, since gradients are sums.
    """
    reference_args = [_requires_grad(arg) for arg in to_reference(to_card(args))]
    expected = function(*reference_args)
    generator = torch.Generator().manual_seed(1)
    upstream = torch.rand(expected.shape, generator=generator).to(args[0].dtype)
    references = [expected, *_gradients(expected, reference_args, upstream.double())]
    for call in _calls(function):
        torch._dynamo.reset()
        card_args = [_requires_grad(arg) for arg in to_card(args)]
        actual = call(*card_args)
        results = [actual, *_gradients(actual, card_args, upstream.to("spyre"))]
        for result, reference in zip(results, references, strict=True):
            assert result.device.type == "spyre" and result.dtype == args[0].dtype
            largest = reference.detach().abs().max().item() if reference.numel() else 0.0
            assert_close(result, reference, units, max(largest, 0.25))


def _requires_grad(leaf):
    return leaf.detach().requires_grad_() if isinstance(leaf, torch.Tensor) else leaf


def _gradients(result, args, upstream):
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    return torch.autograd.grad(result, tensors, upstream)


def _copied(leaf):
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def count_call(call, *args):
    """Call a function; return the change of the counters, and the result."""
    torch.spyre.synchronize()
    before = torch.spyre.counters()
    result = call(*args)
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    return {name: after[name] - before[name] for name in after}, result

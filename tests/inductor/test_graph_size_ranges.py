"""Compiled graphs with symbolic sizes have programs for ranges of sizes."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from torch_spyre import knobs
from torch_spyre._inductor.specialization import Specializing
from torch_spyre.errors import FallbackWarning

SIZES = (20, 25, 17, 31, 32, 18)


def half(*shape):
    return torch.randn(shape).half()


def block(x, cache, weight):
    cache = torch.cat([cache, x], 0)
    return F.silu(x @ weight) @ cache.t(), cache


def shifted_in_place(x, y):
    x.add_(y)
    return x.sum(-1), x.shape[0]


GRAPHS = {
    "cache": (block, lambda n: [half(1, 64), half(n, 64), half(64, 64)]),
    "mutated input": (shifted_in_place, lambda n: [half(n, 70), half(n, 70)]),
    "view of an input": (lambda x: (x * 2, x.t()), lambda n: [half(n, 70)]),
    "norm": (lambda x, w: F.rms_norm(x, (128,), w) @ x.t(), lambda n: [half(n, 128), half(128)]),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k).transpose(1, 2).flatten(2),
        lambda n: [half(1, 2, 1, 64), half(1, 2, n, 64)],
    ),
}


@pytest.fixture(autouse=True)
def size_ranges_on():
    with knobs.override(TORCH_SPYRE_SIZE_RANGES="1"):
        yield


@pytest.fixture
def variants(monkeypatch):
    """The sizes of the inputs that graphs were compiled for, one by one."""
    torch._dynamo.reset()
    sizes: list[list[object]] = []
    compile_variant = Specializing._compile

    def recorded(self, arguments):
        sizes.append([getattr(value, "shape", value) for value in arguments])
        return compile_variant(self, arguments)

    monkeypatch.setattr(Specializing, "_compile", recorded)
    return sizes


def run(function, make):
    """Return the results and the final inputs for all sizes."""
    torch.manual_seed(0)
    compiled = torch.compile(function, dynamic=True)
    values = []
    for size in SIZES:
        inputs = [tensor.to("spyre") for tensor in make(size)]
        values.append([*torch.utils._pytree.tree_leaves(compiled(*inputs)), *inputs])
    return [
        [value.cpu() if isinstance(value, torch.Tensor) else value for value in row]
        for row in values
    ]


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_compiled_once_for_a_range(name, variants):
    results = run(*GRAPHS[name])
    assert len(variants) == 2
    torch._dynamo.reset()
    with knobs.override(TORCH_SPYRE_SIZE_RANGES="0"):
        references = run(*GRAPHS[name])
    assert len(variants) > 3
    for result, reference in zip(results, references, strict=True):
        for value, expected in zip(result, reference, strict=True):
            if not isinstance(expected, torch.Tensor):
                assert value == expected
                continue
            steps = zip(value.shape, value.stride(), expected.stride(), strict=True)
            assert all(size == 1 or left == right for size, left, right in steps)
            # Matmuls may be divided along the dim that they sum over.
            scale = float(expected.float().abs().max())
            torch.testing.assert_close(value, expected, rtol=2**-8, atol=2**-9 * scale)


def test_a_graph_that_falls_back_is_compiled_for_each_size(variants):
    compiled = torch.compile(
        lambda x: torch.linalg.det(x.float() @ x.float().t()) + x, dynamic=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for size in (20, 21, 22):
            compiled(half(size, size).to("spyre"))
    assert len(variants) == 3

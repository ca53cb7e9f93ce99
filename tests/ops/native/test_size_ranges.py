"""Eager ops that are called with many sizes are compiled for ranges of sizes."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

from torch_spyre import knobs
from torch_spyre._inductor import eager_op
from torch_spyre.ops.plans import clear_all_plans

Make = Callable[[int], Sequence[torch.Tensor]]


def half(*shape):
    return torch.randn(shape).half()


# The op, and its arguments for one size. Sums over a range of sizes may be divided otherwise.
EXACT: dict[str, tuple[Callable[..., torch.Tensor], Make]] = {
    "scalar": (lambda x: x * 2, lambda n: [half(n, 70)]),
    "along sticks": (lambda x: x + 1, lambda n: [half(3, n)]),
    "broadcast row": (torch.add, lambda n: [half(n, 70), half(70)]),
    "broadcast column": (torch.mul, lambda n: [half(n, 70), half(n, 1)]),
    "float32": (torch.exp, lambda n: [torch.randn(2, n)]),
    "integers": (torch.add, lambda n: [torch.arange(n), torch.arange(n)]),
    "comparison": (torch.gt, lambda n: [half(n, 3), half(n, 3)]),
    "conversion": (lambda x: x.float(), lambda n: [half(5, n)]),
    "transposed": (lambda x: x.t() * 2, lambda n: [half(n, 65)]),
    "copy": (lambda x: x.t().contiguous(), lambda n: [half(n, 65)]),
    "softmax of columns": (lambda x: x.softmax(-1), lambda n: [half(4, n)]),
    "softmax of rows": (lambda x: x.softmax(-1), lambda n: [half(n, 100)]),
    "maximum": (lambda x: x.amax(-1), lambda n: [half(n, 100)]),
    "index of the maximum": (lambda x: x.argmax(-1), lambda n: [half(6, n)]),
    "layer norm": (lambda x: F.layer_norm(x, (128,)), lambda n: [half(2, n, 128)]),
    "cat with itself": (lambda x: torch.cat([x, x], 0), lambda n: [half(n, 64)]),
    "cat of a cache": (
        lambda k, x: torch.cat([k, x], 2),
        lambda n: [half(1, 2, n, 64), half(1, 2, 1, 64)],
    ),
    "cat along sticks": (
        lambda k, x: torch.cat([k, x], 1),
        lambda n: [torch.arange(n)[None], torch.ones(1, 1).long()],
    ),
    "last element": (lambda x: x[:, -1:] + 1, lambda n: [torch.arange(n)[None]]),
    "slice": (lambda x: x[:, 1:] * 2, lambda n: [half(n, 129)]),
    "embedding": (
        lambda table, i: F.embedding(i, table),
        lambda n: [half(50, 128), torch.randint(0, 50, (1, n))],
    ),
    "sum of rows": (lambda x: x.sum(1), lambda n: [half(n, 100)]),
    "causal attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        lambda n: [half(1, 2, n, 64)],
    ),
}
CLOSE: dict[str, tuple[Callable[..., torch.Tensor], Make]] = {
    "matmul with rows": (torch.mm, lambda n: [half(n, 128), half(128, 256)]),
    "matmul with columns": (torch.mm, lambda n: [half(20, 128), half(128, n)]),
    "matmul with inner": (torch.mm, lambda n: [half(20, n), half(n, 64)]),
    "batched matmul": (torch.bmm, lambda n: [half(2, n, 64), half(2, 64, 40)]),
    "sum of columns": (lambda x: x.sum(0), lambda n: [half(n, 100)]),
    "sum of all": (lambda x: x.sum(), lambda n: [half(n, 100)]),
    "attention of one token": (
        F.scaled_dot_product_attention,
        lambda n: [half(1, 4, 1, 64), half(1, 2, n, 64).repeat(1, 2, 1, 1), half(1, 4, n, 64)],
    ),
    "attention with a mask": (
        lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m),
        lambda n: [half(1, 2, 3, 64), half(1, 2, n, 64), half(1, 1, 3, n)],
    ),
}
# Both ends of two ranges, and sizes inside of them.
SIZES = (20, 23, 31, 32, 17, 18, 33, 34, 63, 64, 48)


@pytest.fixture(autouse=True)
def size_ranges_on():
    with knobs.override(TORCH_SPYRE_SIZE_RANGES="1"):
        yield


@pytest.fixture
def compiled_calls(monkeypatch):
    """The overloads that were compiled for one size."""
    clear_all_plans()
    calls: list[torch._ops.OpOverload] = []
    plan = eager_op.plan_eager_op

    def recorded(overload, args, kwargs):
        calls.append(overload)
        return plan(overload, args, kwargs)

    monkeypatch.setattr(eager_op, "plan_eager_op", recorded)
    yield calls
    clear_all_plans()


def results_for_sizes(op, make):
    torch.manual_seed(0)
    return [op(*(tensor.to("spyre") for tensor in make(size))).cpu() for size in SIZES]


@pytest.mark.parametrize("name", EXACT)
def test_results_are_those_of_programs_for_one_size(name, compiled_calls):
    op, make = EXACT[name]
    results = results_for_sizes(op, make)
    with knobs.override(TORCH_SPYRE_SIZE_RANGES="0"):
        clear_all_plans()
        references = results_for_sizes(op, make)
    for result, reference in zip(results, references, strict=True):
        assert torch.equal(result, reference)


@pytest.mark.parametrize("name", CLOSE)
def test_results_agree_with_the_cpu(name, compiled_calls):
    op, make = CLOSE[name]
    results = results_for_sizes(op, make)
    torch.manual_seed(0)
    for size, result in zip(SIZES, results, strict=True):
        expected = op(*(tensor.float() for tensor in make(size)))
        torch.testing.assert_close(
            result.float(), expected, rtol=2**-8, atol=2**-8 * float(expected.abs().max())
        )


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_a_range_of_sizes_is_compiled_once(name, compiled_calls):
    op, make = (EXACT | CLOSE)[name]
    for size in (17, 18, 19):
        op(*(tensor.to("spyre") for tensor in make(size)))
    compiled_calls.clear()
    for size in range(20, 31):
        op(*(tensor.to("spyre") for tensor in make(size)))
    assert not compiled_calls

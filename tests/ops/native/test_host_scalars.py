"""Eager ops whose operands are not all tensors on the card."""

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_reference


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64])
def test_cached_plan_uses_the_scalar_of_each_call(dtype):
    x = make_tensor(5, 70).to("spyre")
    for value in (2, 3, 5):
        result = x * torch.tensor(value, dtype=dtype)
        assert result.dtype == torch.float16
        assert_close(result, to_reference(x) * value)


def test_scalar_of_a_higher_category_promotes_the_dtype():
    x = make_tensor(7, dtype=torch.int32).to("spyre")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        result = x * torch.tensor(2.5, dtype=dtype)
        assert result.dtype == dtype
        assert_close(result, to_reference(x) * 2.5)
    with pytest.raises(RuntimeError, match="Double"):
        x * torch.tensor(2.5, dtype=torch.float64)


def test_host_scalars_cause_no_fallback():
    x = make_tensor(5, 70).to("spyre")
    before = torch.spyre.counters()["fallbacks"]
    torch.where(x > 0, torch.tensor(7.0), x)
    torch.maximum(x, torch.tensor(0.5))
    assert torch.spyre.counters()["fallbacks"] == before


def test_tensors_of_both_devices_raise():
    x = make_tensor(5).to("spyre")
    with pytest.raises(RuntimeError):
        x + torch.ones(5)
    with pytest.raises(RuntimeError):
        torch.tensor(1.0).add_(x)


def test_kernels_are_planned_below_dispatch_modes():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    x = make_tensor(3, 71).to("spyre")
    with Watching():
        assert_close(x.add(x, alpha=3), 4 * to_reference(x))


def test_op_may_return_none():
    x = make_tensor(5, 70).to("spyre").requires_grad_()
    weight = make_tensor(70).to("spyre")
    torch.nn.functional.layer_norm(x, (70,), weight).backward(torch.ones_like(x))
    assert x.grad is not None and weight.grad is None


def test_index_select_of_columns():
    x, places = make_tensor(5, 5).to("spyre"), torch.tensor([0, 4, 2])
    selected = x.index_select(-1, places.to("spyre"))
    assert_close(selected, to_reference(x).index_select(-1, places), units=0)


def test_matmul_with_empty_inner_dim_is_zero():
    assert_close(
        torch.empty(3, 0).half().to("spyre") @ torch.empty(0, 4).half().to("spyre"),
        torch.zeros(3, 4),
    )


def test_factories_run_on_the_card():
    before = torch.spyre.counters()["fallbacks"]
    made = torch.arange(3, 74, 2, device="spyre")
    assert torch.spyre.counters()["fallbacks"] == before
    assert torch.equal(made.cpu(), torch.arange(3, 74, 2))

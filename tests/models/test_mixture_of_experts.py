"""Mixtures of experts in compiled graphs, where transformers calls grouped_mm."""

import pytest
import torch

pytest.importorskip("transformers.integrations.moe")

ENDS = (3, 9, 9, 20)


def product(rows, factors, ends):
    return torch.ops.transformers.grouped_mm_fallback(rows, factors, ends)


@pytest.mark.parametrize("inference", [False, True], ids=["no_grad", "inference_mode"])
def test_grouped_mm_is_native_in_graphs(inference, monkeypatch):
    rows, factors = torch.randn(20, 32), torch.randn(4, 32, 48)
    ends = torch.tensor(ENDS, dtype=torch.int32)
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK", "error")
    torch._dynamo.reset()
    with torch.inference_mode() if inference else torch.no_grad():
        given = (rows.half().to("spyre"), factors.half().to("spyre"), ends.to("spyre"))
        actual = torch.compile(product, fullgraph=True)(*given)
    expected = product(rows, factors, ends)
    assert (actual.cpu() - expected).norm() <= 2.0**-8 * expected.norm()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_of_grouped_mm(compiled, monkeypatch):
    ends = torch.tensor(ENDS, dtype=torch.int32)
    given = torch.randn(20, 32, requires_grad=True), torch.randn(4, 32, 48, requires_grad=True)
    weights = torch.randn(20, 48)
    (product(*given, ends) * weights).sum().backward()
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK", "error")
    torch._dynamo.reset()
    ours = [tensor.detach().half().to("spyre").requires_grad_() for tensor in given]
    run = torch.compile(product, fullgraph=True) if compiled else product
    (run(*ours, ends.to("spyre")) * weights.half().to("spyre")).sum().backward()
    for parameter, expected in zip(ours, given, strict=True):
        assert (parameter.grad.cpu() - expected.grad).norm() <= 2.0**-8 * expected.grad.norm()

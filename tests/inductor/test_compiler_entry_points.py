"""Entry points of the compiler other than `torch.compile` of a function."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import assert_close, make_tensor, to_card, to_reference
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from torch_spyre.errors import UnsupportedError


def biased(score, batch, head, query, key):
    return score + (query - key) * 0.25


@pytest.fixture
def projections():
    torch._dynamo.reset()
    return to_card(tuple(make_tensor(1, 2, 20, 64, high=high) for high in (2.0, 1.5, 2.5)))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_flex_attention_applies_score_mod(projections, compiled):
    attention = torch.compile(flex_attention) if compiled else flex_attention
    places = torch.arange(20)
    bias = (places[:, None] - places) * 0.25
    expected = F.scaled_dot_product_attention(*to_reference(projections), attn_mask=bias.double())
    assert_close(attention(*projections, score_mod=biased), expected, units=16)


def test_flex_attention_applies_block_mask(projections):
    mask = create_block_mask(lambda b, h, query, key: query >= key, 1, 2, 20, 20, device="spyre")
    actual = torch.compile(flex_attention)(*projections, block_mask=mask)
    expected = F.scaled_dot_product_attention(*to_reference(projections), is_causal=True)
    assert_close(actual, expected, units=16)


def test_gradients_of_flex_attention(projections):
    mine = [tensor.requires_grad_() for tensor in projections]
    theirs = [tensor.requires_grad_() for tensor in to_reference(projections)]
    torch.compile(flex_attention)(*mine).sum().backward()
    F.scaled_dot_product_attention(*theirs).sum().backward()
    for one, other in zip(mine, theirs, strict=True):
        assert_close(one.grad, other.grad, units=16, scale=2)


def test_aot_compile_raises_with_an_alternative(tmp_path):
    model, x = torch.nn.Linear(70, 3).half().to("spyre"), make_tensor(5, 70).to("spyre")
    exported = torch.export.export(model, (x,))
    with pytest.raises(UnsupportedError, match=r"AOTInductor.*torch\.compile\(exported\.module"):
        torch._inductor.aoti_compile_and_package(exported, package_path=f"{tmp_path}/model.pt2")
    with torch.no_grad():
        assert_close(torch.compile(exported.module())(x), model(x), units=1)


def test_aot_compile_for_the_cpu_is_unaffected(monkeypatch):
    from torch._inductor import compile_fx

    class Reached(Exception):
        pass

    def inner(*args, **kwargs):
        raise Reached

    exported = torch.export.export(torch.nn.Linear(7, 3), (torch.ones(5, 7),))
    with pytest.raises(Reached):
        compile_fx.compile_fx_aot(exported.module(), [torch.ones(5, 7)], inner_compile=inner)

"""Attention, eager and compiled, beside the CPU in float32."""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "shared heads"])
def test_attention_agrees_with_the_cpu(kind, compiled):
    torch.manual_seed(0)
    heads = 2 if kind == "shared heads" else 4
    query = torch.randn(2, 4, 33, 64).half()
    key, value = torch.randn(2, heads, 40, 64).half(), torch.randn(2, heads, 40, 64).half()
    if kind == "causal":
        key, value = key[:, :, :33].contiguous(), value[:, :, :33].contiguous()
    mask = torch.randn(2, 1, 33, 40).half() if kind == "mask" else None

    def attend(query, key, value, mask):
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            is_causal=kind == "causal",
            enable_gqa=kind == "shared heads",
        )

    on_card = [each if each is None else each.to("spyre") for each in (query, key, value, mask)]
    held = [each if each is None else each.cpu().float() for each in on_card]
    run = torch.compile(attend) if compiled else attend
    # Scores of size 4 are off by 2**-8 at most, their exponentials by as much; the sums average.
    torch.testing.assert_close(
        run(*on_card).cpu().float(), attend(*held), rtol=4 * 2**-9, atol=4 * 2**-9
    )

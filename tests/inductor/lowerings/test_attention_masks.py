"""Masks of minus infinity and of lowest values, for every implementation of attention.

They differ in a fully masked row: with minus infinity a softmax gives NaN and PyTorch's attention
gives zeros; with lowest values both give about the mean of the values.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from torch_spyre._inductor.decompositions import attention

HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32
TYPES = pytest.mark.parametrize("dtype", [HALF, BFLOAT, SINGLE], ids=str)
WAYS = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
LOWEST = {"infinity": lambda dtype: -math.inf, "lowest": lambda dtype: torch.finfo(dtype).min}
VALUES = pytest.mark.parametrize("kind", LOWEST)
ROOM = {HALF: 8e-3, BFLOAT: 2e-2, SINGLE: 1e-4}


def tensors(dtype, rows=6, keys=70, heads=2, key_heads=2):
    torch.manual_seed(0)
    sizes = ((1, heads, rows, 64), (1, key_heads, keys, 64), (1, key_heads, keys, 64))
    # Scores below 1, which nearly vanish when the lowest float16 is added.
    return [torch.randn(size).mul(0.3).to(dtype) for size in sizes]


def hidden(rows, keys):
    """Mask all keys of row 0, all but one key of row 1, and a tail of keys of the other rows."""
    mask = torch.zeros(rows, keys, dtype=torch.bool)
    mask[:, keys - 5 :] = True
    mask[0] = True
    mask[1 % rows, 1:] = True
    return mask


def added(query, key, value, mask):
    scores = query @ key.transpose(-1, -2) * 0.125 + mask
    return torch.softmax(scores, -1) @ value


def added_in_float32(query, key, value, mask):
    """As models do."""
    scores = query @ key.transpose(-1, -2) * 0.125 + mask
    return torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype) @ value


def filled(query, key, value, mask):
    scores = query @ key.transpose(-1, -2) * 0.125
    low = -math.inf if filled.kind == "infinity" else torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(mask != 0, low), -1) @ value


def made_on_the_card(query, key, value, mask):
    """Compute an additive mask from a bool mask, as older models do."""
    low = -math.inf if filled.kind == "infinity" else torch.finfo(query.dtype).min
    bias = torch.where(mask == 0, torch.zeros((), dtype=query.dtype), low)
    return added(query, key, value, bias.to(query.dtype))


def logarithm(query, key, value, mask):
    scores = query @ key.transpose(-1, -2) * 0.125 + mask
    return torch.log_softmax(scores, -1).exp() @ value


def attended(query, key, value, mask):
    return F.scaled_dot_product_attention(
        query, key, value, mask, enable_gqa=query.shape[1] != key.shape[1]
    )


def compare(function, dtype, kind, compiled, given):
    filled.kind = kind
    query, key, value = given
    hides = hidden(query.shape[-2], key.shape[-2])
    mask = torch.zeros(hides.shape, dtype=dtype).masked_fill(hides, LOWEST[kind](dtype))
    expected = function(query, key, value, mask).float()
    torch._dynamo.reset()
    run = torch.compile(function, dynamic=False) if compiled else function
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        actual = run(*(tensor.to("spyre") for tensor in (query, key, value, mask))).cpu().float()
    torch.testing.assert_close(actual, expected, atol=ROOM[dtype], rtol=ROOM[dtype], equal_nan=True)
    return actual


@pytest.mark.one_case_in(3)
@WAYS
@TYPES
@VALUES
@pytest.mark.parametrize("function", [added, added_in_float32, filled, made_on_the_card, logarithm])
def test_softmax_of_masked_scores(function, kind, dtype, compiled):
    actual = compare(function, dtype, kind, compiled, tensors(dtype))
    assert actual[:, :, 0].isnan().all() == (kind == "infinity")


@WAYS
@pytest.mark.parametrize("low", [-32752.0, torch.finfo(HALF).min, -math.inf])
def test_masked_scores_have_zero_weight(low, compiled):
    def weights(scores, mask):
        return torch.softmax(scores + mask, -1)

    hides = hidden(6, 70)[1:]
    mask = torch.zeros(hides.shape, dtype=HALF).masked_fill(hides, low)
    torch._dynamo.reset()
    run = torch.compile(weights) if compiled else weights
    actual = run(torch.randn(hides.shape).half().to("spyre"), mask.to("spyre")).cpu()
    assert actual[hides].eq(0).all() and actual[~hides].gt(0).all()


@pytest.mark.one_case_in(2)
@WAYS
@TYPES
@VALUES
@pytest.mark.parametrize("form", ["heads", "shared heads", "decoding", "decomposed"])
def test_attention(form, kind, dtype, compiled, monkeypatch):
    sizes = {"shared heads": {"heads": 4}, "decoding": {"rows": 1, "keys": 600}}
    if form == "decomposed":
        monkeypatch.setattr(attention, "has_kernel", lambda *args: False)
        torch._dynamo.reset()
    actual = compare(attended, dtype, kind, compiled, tensors(dtype, **sizes.get(form, {})))
    assert actual[:, :, 0].eq(0).all() == (kind == "infinity")


@TYPES
@WAYS
def test_bool_mask_equals_minus_infinity(dtype, compiled):
    given = tensors(dtype)
    shows = ~hidden(6, 70)
    run = torch.compile(attended) if compiled else attended
    torch._dynamo.reset()
    actual = run(*(tensor.to("spyre") for tensor in (*given, shows))).cpu()
    torch.testing.assert_close(
        actual.float(), attended(*given, shows).float(), atol=ROOM[dtype], rtol=ROOM[dtype]
    )
    assert actual[:, :, 0].eq(0).all()


@TYPES
@VALUES
@WAYS
def test_causal_mask_with_left_padding(dtype, kind, compiled):
    """The mask of a batch padded on the left: its first rows see nothing at all."""
    rows = 70

    def padded(query, key, value, low):
        places = torch.arange(rows, device=query.device)
        hides = (places > places[:, None]) | (places < 5)
        return attended(query, key, value, torch.where(hides, low, 0.0).to(query.dtype))

    given = tensors(dtype, rows=rows)
    low = torch.tensor(LOWEST[kind](dtype), dtype=dtype)
    run = torch.compile(padded) if compiled else padded
    torch._dynamo.reset()
    actual = run(*(tensor.to("spyre") for tensor in (*given, low))).cpu().float()
    expected = padded(*given, low).float()
    torch.testing.assert_close(actual, expected, atol=ROOM[dtype], rtol=ROOM[dtype])


@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
@WAYS
def test_infinities_survive_conversion_to_float32_and_back(dtype, compiled):
    def there_and_back(x):
        wide = x.float()
        return wide, wide.to(dtype), torch.isinf(wide), (wide * 2).to(dtype)

    x = torch.tensor([math.inf, -math.inf, math.nan, 3.0, 0.0], dtype=dtype)
    run = torch.compile(there_and_back) if compiled else there_and_back
    torch._dynamo.reset()
    for actual, expected in zip(run(x.to("spyre")), there_and_back(x), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


def test_lowest_bfloat16_stays_finite(no_fallbacks):
    low = torch.finfo(BFLOAT).min
    made = (
        torch.full((3,), low, dtype=BFLOAT, device="spyre"),
        torch.full((3,), low, dtype=BFLOAT).to("spyre"),
        torch.full((3,), low, dtype=SINGLE).to("spyre", BFLOAT),
        torch.full((3,), low, dtype=SINGLE, device="spyre").to(BFLOAT),
    )
    for tensor in made:
        assert not torch.isinf(tensor).any()
        assert torch.isfinite(tensor.cpu()).all()
        assert torch.isinf(tensor + tensor).all()

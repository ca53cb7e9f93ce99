"""Attention, eager and compiled, against float64 and against PyTorch on the CPU."""

import math
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import count_call, mark_heavy

from torch_spyre._inductor.decompositions import attention

WAYS = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()


@dataclass(frozen=True)
class Form:
    """Sizes and arguments of one call."""

    batch: int = 2
    heads: int = 4
    key_heads: int = 2
    rows: int = 20
    keys: int = 70
    inner: int = 64
    values: int = 64
    dtype: torch.dtype = HALF
    bias: tuple[int, ...] | None = None
    options: dict[str, object] = field(default_factory=dict)

    def tensors(self):
        torch.manual_seed(0)
        query = torch.randn(self.batch, self.heads, self.rows, self.inner)
        key = torch.randn(self.batch, self.key_heads, self.keys, self.inner)
        value = torch.randn(self.batch, self.key_heads, self.keys, self.values)
        bias = None if self.bias is None else torch.randn(self.bias)
        given = (query, key, value, bias)
        return [None if tensor is None else tensor.to(self.dtype).to("spyre") for tensor in given]

    def __call__(self, query, key, value, bias):
        return F.scaled_dot_product_attention(
            query, key, value, bias, enable_gqa=self.heads != self.key_heads, **self.options
        )


FORMS = {
    "plain": Form(key_heads=4),
    "causal": Form(rows=70, options={"is_causal": True}),
    "causal in many tiles": Form(
        batch=1, heads=2, key_heads=1, rows=601, keys=777, options={"is_causal": True}
    ),
    "causal with more rows than keys": Form(rows=300, keys=33, options={"is_causal": True}),
    "many keys": Form(batch=1, key_heads=1, keys=2100, bias=(2100,)),
    "one row": Form(rows=1, keys=300),
    "one row that sees one key": Form(rows=1, keys=5, options={"is_causal": True}),
    "one of everything": Form(batch=1, heads=1, key_heads=1, rows=1, keys=5),
    "two keys": Form(keys=2),
    "one head of keys": Form(heads=71, key_heads=1, rows=5, options={"is_causal": True}),
    "narrow heads": Form(inner=32, values=32),
    "odd heads": Form(inner=80, values=80),
    "wide heads": Form(inner=256, values=256),
    "other values": Form(inner=64, values=96),
    "hardly any channels": Form(inner=2, values=3),
    "scale": Form(options={"scale": 0.3}),
    "negative scale": Form(options={"scale": -0.25}),
    "bias of keys": Form(bias=(70,)),
    "bias of rows": Form(bias=(20, 1)),
    "bias of batches": Form(bias=(2, 1, 20, 70)),
    "bias of heads": Form(bias=(1, 4, 1, 70)),
    "bias of all": Form(bias=(2, 4, 20, 70)),
    "bias of nothing": Form(bias=(2, 1, 1, 1)),
    "float32": Form(dtype=SINGLE, bias=(2, 4, 20, 70)),
    "causal float32": Form(dtype=SINGLE, rows=70, inner=40, options={"is_causal": True}),
    "bfloat16": Form(dtype=BFLOAT, bias=(20, 70)),
}


def exactly(form, query, key, value, bias):
    """Compute attention in float64 from the values on the card."""
    query, key, value = (tensor.cpu().double() for tensor in (query, key, value))
    shared = form.heads // form.key_heads
    scale = form.options.get("scale", form.inner**-0.5)
    scores = query @ key.repeat_interleave(shared, 1).transpose(-1, -2) * scale
    if bias is not None:
        scores = scores + bias.cpu().double()
    if form.options.get("is_causal"):
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(scores, -1) @ value.repeat_interleave(shared, 1)


def off_by(dtype, value):
    """Bound the error: the weights are rounded once, and the result once; on the host twice."""
    step = {HALF: 2**-10, BFLOAT: 2**-9 + 2**-10, SINGLE: 2**-19}[dtype]
    return {"rtol": step, "atol": step * value.abs().max().item()}


# These forms cover what Dynamo and Inductor do to any form.
COMPILED = ["plain", "causal", "one row", "odd heads", "bias of heads", "float32"]
CASES = [*((name, False) for name in FORMS), *((name, True) for name in COMPILED)]


@pytest.mark.parametrize("name, compiled", CASES)
def test_attention_is_one_program_with_format_accuracy(name, compiled):
    form = FORMS[name]
    tensors = form.tensors()
    run = torch.compile(form.__call__) if compiled else form
    with torch.no_grad():
        run(*tensors)
        counts, result = count_call(run, *tensors)
    assert counts["launches"] == 1
    assert counts["fallbacks"] == 0
    assert result.dtype == form.dtype and result.is_contiguous()
    bounds = off_by(form.dtype, tensors[2].cpu().double())
    torch.testing.assert_close(result.cpu().double(), exactly(form, *tensors), **bounds)


def test_scores_are_never_written():
    form = Form(batch=1, heads=8, key_heads=2, rows=256, keys=256, options={"is_causal": True})
    tensors = form.tensors()
    run = torch.compile(form.__call__)
    with torch.no_grad():
        run(*tensors)
        counts, result = count_call(run, *tensors)
    sizes = [2 * tensor.numel() for tensor in (*tensors[:3], result)]
    assert counts["ddr_write_bytes"] == sizes[-1]
    assert counts["ddr_read_bytes"] == sum(sizes[:3])


def test_causal_attention_skips_masked_tiles_of_keys():
    """The rows of this call attend to the first of eight tiles of keys."""
    causal = Form(batch=1, key_heads=1, rows=64, keys=2048, options={"is_causal": True})
    plain = Form(batch=1, key_heads=1, rows=64, keys=2048)
    bytes_read = []
    for form in (causal, plain):
        tensors = form.tensors()
        run = torch.compile(form.__call__)
        with torch.no_grad():
            run(*tensors)
            bytes_read.append(count_call(run, *tensors)[0]["ddr_read_bytes"])
    assert bytes_read[0] < bytes_read[1] / 3


@WAYS
def test_attention_skips_invalid_part_of_a_key_cache(compiled):
    """The skipped keys are NaN, which would reach the result. The timing model counts them."""
    form = Form(batch=1, rows=1, keys=1024)
    query, key, value, _ = form.tensors()
    key[:, :, 512:] = math.nan
    value[:, :, 512:] = math.nan
    bias = torch.zeros(1, 1, 1, 1024, dtype=HALF)
    bias[..., 300:] = -math.inf
    key[:, :, 300:512], value[:, :, 300:512] = 5.0, 5.0
    run = torch.compile(form.__call__) if compiled else form
    with torch.no_grad():
        result = run(query, key, value, bias.to("spyre"))
        valid = run(query, key[:, :, :300].contiguous(), value[:, :, :300].contiguous(), None)
    torch.testing.assert_close(
        result.cpu().float(), valid.cpu().float(), **off_by(HALF, value[:, :, :300].cpu())
    )


LOWEST = {
    "infinity": lambda dtype: -math.inf,
    "lowest": lambda dtype: torch.finfo(dtype).min,
    "flags": lambda dtype: None,
}


def hides(rows, keys):
    """Return a mask that hides future keys, a tail of keys, and all keys of one row."""
    hidden = ~torch.ones(rows, keys, dtype=torch.bool).tril(3)
    hidden[:, 60:] = True
    hidden[7] = True
    return hidden


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize(
    "whole, compiled",
    [(True, False), (True, True), (False, True)],
    ids=["kernel", "compiled kernel", "other ops"],
)
@pytest.mark.parametrize("dtype", [HALF, BFLOAT, SINGLE], ids=str)
@pytest.mark.parametrize("kind", LOWEST)
def test_masks_match_pytorch(kind, dtype, whole, compiled, monkeypatch):
    if not whole:
        monkeypatch.setattr(attention, "has_kernel", lambda *args: False)
    form = Form(batch=1, rows=30, keys=70, dtype=dtype)
    query, key, value, _ = form.tensors()
    low, hidden = LOWEST[kind](dtype), hides(30, 70)
    mask = ~hidden if low is None else torch.zeros(30, 70, dtype=dtype).masked_fill(hidden, low)
    run = torch.compile(form.__call__) if compiled else form
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        result = run(query, key, value, mask.to("spyre")).cpu().float()
    wide = mask if low is None else mask.float()
    expected = form(*(tensor.cpu().float() for tensor in (query, key, value)), wide)
    if kind == "lowest" and dtype is HALF:
        # In the fully masked row, the lowest float16 is added to the scores.
        assert result[:, :, 7].abs().max() < value.cpu().abs().max()
        result, expected = (tensor[:, :, torch.arange(30) != 7] for tensor in (result, expected))
    assert torch.equal(result[:, :, 7].eq(0), expected[:, :, 7].eq(0))
    bounds = off_by(dtype, value.cpu().float())
    if not whole and dtype is not SINGLE:
        bounds = {name: 8 * bound for name, bound in bounds.items()}
    torch.testing.assert_close(result, expected, **bounds)


def test_nan_bias_propagates():
    form = Form(batch=1, rows=3, keys=600)
    bias = torch.full((3, 600), -math.inf, dtype=HALF)
    bias[1, 400] = math.nan
    result = form(*form.tensors()[:3], bias.to("spyre")).cpu()
    assert result[:, :, 1].isnan().all()
    assert result[:, :, [0, 2]].eq(0).all()


@pytest.mark.parametrize("pages", mark_heavy([1, 2, 5], 1, 5))
def test_attention_over_pages_of_keys(pages):
    """With the largest score and the sums so far, as servers compute with long caches."""
    form = Form(keys=64 * pages)
    query, key, value, _ = form.tensors()

    def paged(query, key, value):
        shared = form.heads // form.key_heads
        query = query.unflatten(1, (form.key_heads, shared)) * form.inner**-0.5
        largest, total, result = -math.inf, 0.0, 0.0
        for page in zip(key.split(64, 2), value.split(64, 2), strict=True):
            keys, values = (tensor.unsqueeze(2) for tensor in page)
            scores = (query @ keys.mT).float()
            before, largest = largest, scores.amax(-1, keepdim=True).clamp(min=largest)
            weights = torch.exp(scores - largest)
            kept = torch.exp(before - largest)
            total = total * kept + weights.sum(-1, keepdim=True)
            result = result * kept + (weights.to(values.dtype) @ values).float()
        return (result / total).to(value.dtype).flatten(1, 2)

    before = torch.spyre.counters()["fallbacks"]
    with torch.no_grad():
        result = torch.compile(paged, fullgraph=True)(query, key, value)
    assert torch.spyre.counters()["fallbacks"] == before
    # The scores are rounded to float16 before the exponential.
    bounds = {name: 4 * bound for name, bound in off_by(HALF, value.cpu().double()).items()}
    expected = exactly(form, query, key, value, None)
    torch.testing.assert_close(result.cpu().double(), expected, **bounds)


@WAYS
def test_views_are_not_copied(compiled):
    """Heads are views of a projection, as in models; query, key and value are not copied."""
    torch.manual_seed(0)
    states = torch.randn(1, 70, 12 * 64).half().to("spyre")

    def attend(states):
        query, key, value = states.view(1, 70, 12, 64).transpose(1, 2).split([8, 2, 2], 1)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    run = torch.compile(attend) if compiled else attend
    with torch.no_grad():
        run(states)
        counts, result = count_call(run, states)
    assert counts["launches"] == 1
    assert result.transpose(1, 2).is_contiguous()
    query, key, value = states.cpu().view(1, 70, 12, 64).transpose(1, 2).split([8, 2, 2], 1)
    form = Form(batch=1, heads=8, options={"is_causal": True})
    expected = exactly(form, query, key, value, None)
    torch.testing.assert_close(result.cpu().double(), expected, **off_by(HALF, value.double()))


def test_other_layouts_are_copied_first():
    form = Form(key_heads=4)
    query, key, value, _ = form.tensors()
    turned = key.transpose(-1, -2).contiguous()

    def attend(query, turned, value):
        return form(query, turned.transpose(-1, -2), value, None)

    with torch.no_grad():
        result = torch.compile(attend)(query, turned, value)
    expected = exactly(form, query, key, value, None)
    bounds = off_by(HALF, value.cpu().double())
    torch.testing.assert_close(result.cpu().double(), expected, **bounds)


def test_symbolic_sizes():
    torch._dynamo.utils.counters.clear()

    def attend(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    run = torch.compile(attend, dynamic=True)
    for rows in (70, 33, 130):
        form = Form(rows=rows, keys=rows, options={"is_causal": True})
        *tensors, _ = form.tensors()
        with torch.no_grad():
            result = run(*tensors)
        bounds = off_by(HALF, tensors[2].cpu().double())
        expected = exactly(form, *tensors, None)
        torch.testing.assert_close(result.cpu().double(), expected, **bounds)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("sizes", [(0, 70), (20, 0), (20, 1)], ids=str)
@WAYS
def test_attention_without_keys(sizes, compiled):
    rows, keys = sizes
    form = Form(rows=rows, keys=keys)
    tensors = form.tensors()
    run = torch.compile(form.__call__) if compiled else form
    with torch.no_grad():
        counts, result = count_call(run, *tensors)
    assert counts["fallbacks"] == 0
    held = [None if tensor is None else tensor.cpu().float() for tensor in tensors]
    torch.testing.assert_close(result.cpu().float(), form(*held))


@WAYS
def test_gradients_of_attention(compiled):
    form = Form(dtype=SINGLE, rows=40, keys=40, bias=(40, 40), options={"is_causal": False})
    held = [tensor.cpu().double().requires_grad_() for tensor in form.tensors()]
    tensors = [tensor.requires_grad_() for tensor in form.tensors()]
    run = torch.compile(form.__call__) if compiled else form
    run(*tensors).square().sum().backward()
    form(*held).square().sum().backward()
    for ours, theirs in zip(tensors, held, strict=True):
        torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("batches", [0, 1, 2])
@WAYS
def test_fully_masked_row_has_gradients_of_equal_weights(batches, compiled):
    """The log-sum-exp of such a row rounds to its largest score."""
    torch.manual_seed(0)
    leading = (2,) * batches
    host = [torch.randn(*leading, 4, rows, 64) for rows in (5, 40, 40)]
    bias = torch.zeros(5, 40)
    bias[2] = torch.finfo(torch.float32).min

    def plainly(query, key, value, bias):
        return torch.softmax(query @ key.mT / 8 + bias, -1) @ value

    def gradients(call, dtype, device):
        given = [tensor.to(device, dtype, copy=True).requires_grad_() for tensor in host]
        call(*given, bias.to(device, dtype)).square().sum().backward()
        return [tensor.grad.cpu().double() for tensor in given]

    attend = F.scaled_dot_product_attention
    actual = gradients(torch.compile(attend) if compiled else attend, SINGLE, "spyre")
    for ours, theirs in zip(actual, gradients(plainly, torch.float64, "cpu"), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@WAYS
def test_attention_without_batch_dim_uses_the_kernel(compiled):
    form = Form(batch=1, bias=(4, 20, 70))
    tensors = [tensor if tensor.dim() == 3 else tensor.squeeze(0) for tensor in form.tensors()]
    run = torch.compile(form.__call__) if compiled else form
    with torch.no_grad():
        run(*tensors)
        counts, result = count_call(run, *tensors)
    assert (counts["launches"], counts["fallbacks"]) == (1, 0)
    expected = exactly(form, *form.tensors()).squeeze(0)
    bounds = off_by(form.dtype, tensors[2].cpu().double())
    torch.testing.assert_close(result.cpu().double(), expected, **bounds)


def test_dropout_uses_the_decomposition():
    form = Form(options={"dropout_p": 0.5})
    assert not attention.has_kernel(*form.tensors(), 0.5)
    assert attention.has_kernel(*form.tensors(), 0.0)


MISFITS = {
    "channels": ((1, 2, 3, 8), (1, 2, 4, 9), (1, 2, 4, 8), None),
    "keys": ((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 5, 8), None),
    "heads": ((1, 4, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8), None),
    "mask": ((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8), (3, 5)),
}


@pytest.mark.parametrize("name", MISFITS)
@WAYS
def test_incompatible_shapes_raise(name, compiled):
    given = [None if size is None else torch.ones(size, device="spyre") for size in MISFITS[name]]
    attend = F.scaled_dot_product_attention
    with pytest.raises(RuntimeError, match="size"):
        (torch.compile(attend) if compiled else attend)(*given)

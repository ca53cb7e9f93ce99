"""Sampling on the card: draws, ranks and searches."""

import pytest
import torch
from scipy import stats

pytestmark = pytest.mark.usefixtures("no_fallbacks_but_rejections")


@pytest.fixture
def no_fallbacks_but_rejections(request):
    """Assert that no op falls back, except in tests of arguments that the CPU rejects."""
    if "invalid" not in request.node.name:
        request.getfixturevalue("no_fallbacks")


def drawn(weights, *args, seed=3, **kwargs):
    generator = torch.Generator(weights.device).manual_seed(seed)
    return torch.multinomial(weights, *args, generator=generator, **kwargs).cpu()


@pytest.mark.parametrize("shape", [(20,), (1, 7), (5, 130), (3, 5000)])
@pytest.mark.parametrize(("count", "replacement"), [(1, False), (3, False), (40, True)])
def test_samples_are_categories_with_weight(shape, count, replacement):
    weights = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    weights[..., ::3] = 0
    samples = drawn(weights.to("spyre"), count, replacement=replacement)
    assert samples.shape == (*shape[:-1], count) and samples.dtype is torch.int64
    assert (weights.expand(*shape).gather(-1, samples) > 0).all()
    if not replacement:
        assert all(row.unique().numel() == count for row in samples.view(-1, count))
    assert torch.equal(samples, drawn(weights.to("spyre"), count, replacement=replacement))
    assert (
        not torch.equal(samples, drawn(weights.to("spyre"), count, seed=5, replacement=replacement))
        or count == 1
    )


@pytest.mark.parametrize("replacement", [False, True])
def test_samples_have_the_distribution_of_the_weights(replacement):
    weights = torch.tensor([0.0, 1.0, 2.0, 5.0, 0.0])
    if replacement:
        samples = drawn(weights.to("spyre"), 8000, replacement=True)
    else:
        samples = drawn(weights.expand(8000, 5).to("spyre"), 2)[:, 0]
    counts = torch.bincount(samples.flatten(), minlength=5)
    assert counts[0] == counts[4] == 0
    assert stats.chisquare(counts[1:4], [1000, 2000, 5000]).pvalue > 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_frequencies_match_the_weights(dtype):
    weights = torch.tensor([0.0, 1.0, 2.0, 5.0], dtype=dtype).expand(4000, 4).contiguous()
    actual = torch.bincount(drawn(weights.to("spyre"), 1).flatten(), minlength=4) / 4000
    # Four standard deviations of a frequency of 5/8 in 4000 samples.
    assert (actual - torch.tensor([0.0, 1 / 8, 2 / 8, 5 / 8])).abs().max() < 4 * 0.5 / 4000**0.5
    assert actual[0] == 0


@pytest.mark.parametrize(
    ("weights", "count"),
    [
        (torch.tensor([0.5, -0.1]), 1),
        (torch.tensor([0.5, float("nan")]), 1),
        (torch.tensor([[0.5, 0.5], [0.5, float("inf")]]), 1),
        (torch.tensor([[0.5, 0.5], [0.0, 0.0]]), 1),
        (torch.tensor([0.5, 0.5]), 3),
        (torch.tensor([0.5, 0.5]), 0),
        (torch.tensor(0.5), 1),
        (torch.ones(2, 2, 2), 1),
        (torch.ones(3, dtype=torch.int32), 1),
    ],
    ids=str,
)
def test_invalid_arguments_raise_the_errors_of_the_cpu(weights, count):
    with pytest.raises((RuntimeError, NotImplementedError)) as refused:
        torch.multinomial(weights, count)
    with pytest.raises((RuntimeError, NotImplementedError)) as ours:
        torch.multinomial(weights.to("spyre"), count)
    assert str(ours.value).split("\n")[0] == str(refused.value).split("\n")[0]


def test_a_model_samples_on_the_card():
    transformers = pytest.importorskip("transformers")
    config = transformers.GraniteConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    model = transformers.GraniteForCausalLM(config).eval().to("spyre")
    ids = torch.arange(5, 13, device="spyre").reshape(1, 8)
    before = torch.spyre.counters()["fallbacks"]
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=20,
        top_p=0.9,
        temperature=0.7,
        repetition_penalty=1.1,
        max_new_tokens=4,
        min_new_tokens=4,
        pad_token_id=0,
    )
    assert torch.spyre.counters()["fallbacks"] == before

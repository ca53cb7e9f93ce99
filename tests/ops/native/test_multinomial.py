"""Sampling: draws come from the host, in the CPU's sequence; all else runs on the card."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")


def drawn(weights, *args, seed=3, **kwargs):
    generator = torch.Generator(weights.device).manual_seed(seed)
    return torch.multinomial(weights, *args, generator=generator, **kwargs).cpu()


@pytest.mark.parametrize("shape", [(20,), (1, 7), (5, 130), (3, 5000)])
@pytest.mark.parametrize("count", [1, 3])
def test_samples_match_the_cpu(shape, count):
    weights = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    weights[..., ::3] = 0
    for seed in range(5):
        expected = drawn(weights, count, seed=seed)
        assert torch.equal(drawn(weights.to("spyre"), count, seed=seed), expected)
    expected = drawn(weights, count, replacement=True)
    assert torch.equal(drawn(weights.to("spyre"), count, replacement=True), expected)


def test_only_random_values_are_copied_from_the_host():
    weights = torch.rand(2, 50).to("spyre")
    before = torch.spyre.counters()["fallbacks"]
    torch.multinomial(weights, 1)
    assert torch.spyre.counters()["fallbacks"] - before == 1


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
    # One draw for each token.
    assert torch.spyre.counters()["fallbacks"] - before == 4

"""`generate` of stock models on the card: each token is plausible in float32 too."""

import pytest
import torch
from model_families import DECODER, IDS
from transformers import CompileConfig, GraniteConfig, GraniteForCausalLM, StaticCache

NEW = 6
# The card rounds to 9 bits at every step of two layers: scores this close may swap ranks.
NEAR = 2.0**-6


@pytest.fixture(scope="module")
def reference():
    torch.manual_seed(0)
    return GraniteForCausalLM(GraniteConfig(**DECODER)).eval()


@pytest.fixture(scope="module")
def model(reference):
    copy = GraniteForCausalLM(reference.config)
    copy.load_state_dict(reference.state_dict())
    return copy.eval().half().to("spyre")


def generated(model, prompt, **options):
    mask = torch.ones_like(prompt)
    return model.generate(
        prompt.to("spyre"),
        attention_mask=mask.to("spyre"),
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        pad_token_id=0,
        **options,
    ).cpu()


def scores_of_tokens(reference, sequences, prompt):
    """Return, for each new token, the float32 scores at its position and the token's score."""
    with torch.no_grad():
        scores = reference(input_ids=sequences).logits[:, prompt.shape[1] - 1 : -1]
    tokens = sequences[:, prompt.shape[1] :]
    return scores, scores.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("batch", [1, 2])
def test_greedy_tokens_have_the_best_score(model, reference, batch, cache):
    prompt = IDS[:batch, :8]
    before = torch.spyre.counters()["fallbacks"]
    sequences = generated(model, prompt, do_sample=False, cache_implementation=cache)
    assert torch.spyre.counters()["fallbacks"] == before
    assert sequences.shape == (batch, 8 + NEW) and torch.equal(sequences[:, :8], prompt)
    scores, chosen = scores_of_tokens(reference, sequences, prompt)
    assert bool((chosen >= scores.amax(-1) - NEAR * scores.abs().amax(-1)).all())


@pytest.mark.heavy
def test_compiled_decode_step_matches_eager(model):
    every = CompileConfig()
    every._compile_all_devices = True
    options = {"do_sample": False, "cache_implementation": "static"}
    eager = generated(model, IDS[:1, :8], **options)
    torch._dynamo.reset()
    before = torch.spyre.counters()["fallbacks"]
    assert torch.equal(generated(model, IDS[:1, :8], compile_config=every, **options), eager)
    assert torch.spyre.counters()["fallbacks"] == before


@pytest.mark.heavy
def test_a_compiled_model_is_traced_for_the_prompt_and_once_for_all_tokens(model, reference):
    """With a cache of one size, into which each token is written."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    cache = StaticCache(config=model.config, max_cache_len=64)
    run = torch.compile(model)
    prompt = IDS[:1, :8]
    tokens, given, place = [prompt], prompt.to("spyre"), torch.arange(8)
    with torch.no_grad():
        for step in range(NEW + 2):
            position = place.to("spyre")
            scores = run(input_ids=given, past_key_values=cache, cache_position=position).logits
            given, place = scores[:, -1:].argmax(-1), torch.tensor([8 + step])
            tokens.append(given.cpu())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
    scores, chosen = scores_of_tokens(reference, torch.cat(tokens, 1), prompt)
    assert bool((chosen >= scores.amax(-1) - NEAR * scores.abs().amax(-1)).all())


def test_left_padding_does_not_change_the_result(model, reference):
    prompt = IDS[:1, :8]
    alone = generated(model, prompt, do_sample=False)
    padded = torch.cat([torch.zeros_like(prompt[:, :3]), prompt], 1)
    both = model.generate(
        padded.to("spyre"),
        attention_mask=(padded > 0).long().to("spyre"),
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        do_sample=False,
        pad_token_id=0,
    ).cpu()
    sequences = both[:, 3:]
    scores, chosen = scores_of_tokens(reference, sequences, prompt)
    assert bool((chosen >= scores.amax(-1) - NEAR * scores.abs().amax(-1)).all())
    assert torch.equal(sequences, alone)


def test_sampled_tokens_are_among_the_best_and_follow_the_seed(model, reference):
    prompt = IDS[:1, :8]
    actual = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        actual.append(generated(model, prompt, do_sample=True, top_k=20, top_p=0.95))
    assert torch.equal(actual[0], actual[1]) and not torch.equal(actual[0], actual[2])
    for sequences in actual:
        scores, chosen = scores_of_tokens(reference, sequences, prompt)
        least = scores.topk(20).values[..., -1] - NEAR * scores.abs().amax(-1)
        assert bool((chosen >= least).all())

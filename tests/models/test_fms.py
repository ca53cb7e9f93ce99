"""Models of ibm-fms on the card, unmodified, against the CPU in float32."""

import pytest
import torch
from fms.models.granite import Granite, GraniteConfig
from fms.models.llama import LLaMA, LLaMAConfig
from model_families import IDS
from test_families import CLOSE, cosine

SIZES = dict(
    src_vocab_size=512, emb_dim=256, nheads=4, kvheads=2, nlayers=2, max_expected_seq_len=128
)
FAMILIES = {
    "llama": lambda: LLaMA(LLaMAConfig(**SIZES, hidden_grow_factor=2.0, multiple_of=64)),
    "granite": lambda: Granite(GraniteConfig(**SIZES, hidden_grow_factor=2.0, multiple_of=64)),
}


@pytest.fixture(params=["llama", pytest.param("granite", marks=pytest.mark.heavy)])
def model(request):
    torch.manual_seed(0)
    made = FAMILIES[request.param]()
    made.reset_parameters()
    return made.eval()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_forward_matches_and_is_native(model, compiled):
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(IDS)
        model = model.half().to("spyre")
        run = torch.compile(model) if compiled else model
        before = torch.spyre.counters()["fallbacks"]
        actual = run(IDS.to("spyre"))
    assert torch.spyre.counters()["fallbacks"] == before
    assert cosine(actual, expected) >= CLOSE


def test_a_cached_step_agrees(model):
    with torch.no_grad():
        expected = model(IDS)
        model = model.half().to("spyre")
        _, cache = model(IDS[:, :-1].to("spyre"), use_cache=True)
        last, _ = model(IDS[:, -1:].to("spyre"), past_key_value_states=cache, use_cache=True)
    assert cosine(last[:, -1], expected[:, -1]) >= CLOSE

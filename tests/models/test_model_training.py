"""A stock model of transformers is trained on the card, in 16 bits too."""

import pytest
import torch

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def losses(device, dtype, steps=6):
    torch.manual_seed(0)
    model = transformers.GraniteForCausalLM(transformers.GraniteConfig(**SIZES))
    model = model.to(dtype).to(device)
    ids = torch.randint(3, 60, (2, 17), generator=torch.Generator().manual_seed(1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    actual = []
    for _ in range(steps):
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        actual.append(loss.item())
    return actual


def test_granite_in_bfloat16_learns_as_in_float32_on_the_cpu():
    ours, theirs = losses("spyre", torch.bfloat16), losses("cpu", torch.float32)
    # Nine bits in each of some hundred ops, and steps that differ accordingly.
    for one, other in zip(ours, theirs, strict=True):
        assert abs(one - other) < 0.05 * other
    assert ours[-1] < ours[0] - 1

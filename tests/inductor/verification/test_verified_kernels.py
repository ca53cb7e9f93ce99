"""Kernels are right: they run under TORCH_SPYRE_VERIFY, and nothing remains unverified."""

import warnings

import pytest
import torch
from torch.nn import functional
from varied_functions import FUNCTIONS

from torch_spyre import knobs, ktir
from torch_spyre._inductor.multi_loop.attention.op import AttentionOp
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre.debugging import verification
from torch_spyre.errors import UnverifiedWarning


@pytest.fixture
def verified(monkeypatch):
    """Run a function under verification; return the increase of the summary's counts."""

    def run(call, tensors, *, is_compiled):
        torch._dynamo.reset()
        monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")
        before = verification.summary().copy()
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnverifiedWarning)
            result = (torch.compile(call) if is_compiled else call)(*tensors)
        monkeypatch.delenv("TORCH_SPYRE_VERIFY")
        after = verification.summary()
        assert after.launches > before.launches and after.elements > before.elements
        return result, after.unbounded_elements - before.unbounded_elements

    return run


# Divisions by values that may be zero, and quotients of integers by zero.
UNBOUNDED = {"remainders", "powers", "gradients", "trigonometry"}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_case_in(8)
def test_functions_are_verified(verified, name, is_compiled):
    function = FUNCTIONS[name]
    _, unbounded = verified(function.call, function.on_card(), is_compiled=is_compiled)
    assert not unbounded or name in UNBOUNDED


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.last_norm = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.project = torch.nn.Linear(width, 3 * width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.project(self.norm(x)).chunk(3, -1)
        )
        attention = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + attention.transpose(1, 2).flatten(2)
        return x + self.down(functional.gelu(self.up(self.last_norm(x))))


class Transformer(torch.nn.Module):
    def __init__(self, words=50, width=64):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.Sequential(Block(width, 2), Block(width, 2))
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.heavy
def test_training_of_a_transformer_is_verified(verified, is_compiled, dtype):
    torch.manual_seed(0)
    model = Transformer().to("spyre", dtype)
    tokens = torch.randint(50, (2, 20)).to("spyre")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def loss_of(tokens):
        logits = model(tokens[:, :-1]).float()
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def step(tokens):
        optimizer.zero_grad()
        loss = (torch.compile(loss_of) if is_compiled else loss_of)(tokens)
        loss.backward()
        optimizer.step()
        return loss

    losses = [verified(step, [tokens], is_compiled=False)[0].item() for _ in range(2)]
    assert losses[1] < losses[0]


def test_inference_of_a_transformer_is_verified(verified):
    torch.manual_seed(0)
    model = Transformer().half().eval().requires_grad_(False).to("spyre")
    verified(model, [torch.randint(50, (2, 20)).to("spyre")], is_compiled=True)


def test_op_without_bounds_is_reported_once_and_counted(monkeypatch):
    monkeypatch.setattr(AttentionOp, "enclose", MultiLoopOp.enclose)
    monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")
    function = FUNCTIONS["attention"]
    before = verification.summary().copy()
    with pytest.warns(UnverifiedWarning, match="attention has no bounds") as caught:
        for _ in range(2):
            function.call(*function.on_card())
    assert len([w for w in caught if "attention: attention has" in str(w.message)]) == 1
    reasons = verification.summary().unverified - before.unverified
    assert reasons["attention: attention has no bounds"] == 2
    assert "attention has no bounds" in str(verification.summary())


def test_timing_mode_is_reported(monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")
    before = verification.summary().copy()
    with knobs.override(SPYRE_EMU_MODE="timing"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.exp(torch.ones(3, 7).to("spyre"))
    assert sum((verification.summary().unverified - before.unverified).values()) == 1


KTIR = """
#set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>
func.func @twice(%x: index, %out: index) attributes {grid = [1]} {
  %zero = arith.constant 0 : index
  %in = ktdp.construct_memory_view %x, sizes: [64], strides: [1] : memref<64xf32>
  %result = ktdp.construct_memory_view %out, sizes: [64], strides: [1] : memref<64xf32>
  %source = ktdp.construct_access_tile %in[%zero] {access_tile_set = #set} -> <64xindex>
  %value = ktdp.load %source : <64xindex> -> tensor<64xf32>
  %sum = arith.addf %value, %value : tensor<64xf32>
  %target = ktdp.construct_access_tile %result[%zero] {access_tile_set = #set} -> <64xindex>
  ktdp.store %sum, %target : tensor<64xf32>, <64xindex>
  return
}
"""


def test_kernels_written_in_ktir_are_reported(monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_VERIFY", "1")
    before = verification.summary().copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ktir.load(KTIR).run("twice", x=torch.ones(64), out=torch.zeros(64))
    reasons = verification.summary().unverified - before.unverified
    assert reasons["a kernel written in KTIR has no reference"] == 1

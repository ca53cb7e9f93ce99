"""A decoder block of Granite's shape, for tables of modelled times."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, KEY_HEADS, HIDDEN = 1024, 16, 4, 4096
HEAD_SIZE = WIDTH // HEADS
TOKENS = 512


class DecoderBlock(nn.Module):
    """Attention with grouped heads and a SwiGLU network, each behind an RMSNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.network_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, KEY_HEADS * HEAD_SIZE, bias=False)
        self.value = nn.Linear(WIDTH, KEY_HEADS * HEAD_SIZE, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, ...]) -> Tensor:
        x = x + self.attend(self.attention_norm(x), cos, sin, cache)
        normed = self.network_norm(x)
        network: Tensor = self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return x + network

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, ...]) -> Tensor:
        """Return the attention of new tokens to all; `cache` has earlier keys and values."""
        query = _rotate(_heads(self.query(x)), cos, sin)
        key, value = _rotate(_heads(self.key(x)), cos, sin), _heads(self.value(x))
        if cache:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        mixed: Tensor = functional.scaled_dot_product_attention(
            query, key, value, is_causal=not cache, enable_gqa=True
        )
        output: Tensor = self.output(mixed.transpose(1, 2).reshape(x.shape))
        return output


def _heads(x: Tensor) -> Tensor:
    heads: Tensor = x.unflatten(-1, (-1, HEAD_SIZE))
    return heads.transpose(1, 2)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def prefill_and_decode() -> list[tuple[nn.Module, tuple[Any, ...]]]:
    """Return the block and its arguments for a prefill, and for one more token."""
    with torch.device("meta"):
        block = DecoderBlock().half()
    block = block.to_empty(device="cpu").to("spyre")

    def empty(*sizes: int) -> Tensor:
        return torch.empty(sizes, dtype=torch.float16, device="spyre")

    cache = tuple(empty(1, KEY_HEADS, TOKENS, HEAD_SIZE) for _ in range(2))
    return [
        (block, (empty(1, count, WIDTH), *(empty(count, HEAD_SIZE) for _ in range(2)), before))
        for count, before in ((TOKENS, ()), (1, cache))
    ]

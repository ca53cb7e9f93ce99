"""Sample functions, with their arguments, for tests of the generated kernels."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Sample:
    call: Callable[..., torch.Tensor]
    tensors: tuple[torch.Tensor, ...]

    def on_card(self) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.to("spyre") for tensor in self.tensors)


def _half(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, generator=generator).half()


def _indices(*shape: int, below: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(below)
    return torch.randint(below, shape, generator=generator, dtype=torch.int32)


SAMPLES = {
    "add": Sample(torch.add, (_half(96, 256), _half(96, 256))),
    "broadcast": Sample(torch.mul, (_half(64, 130), _half(130))),
    "softmax": Sample(lambda x: torch.softmax(x, -1), (_half(64, 256),)),
    "layer_norm": Sample(
        lambda x, weight, bias: functional.layer_norm(x, (192,), weight, bias),
        (_half(32, 192), _half(192), _half(192)),
    ),
    "matmul_epilogue": Sample(
        lambda x, y, bias: torch.relu(x @ y + bias), (_half(64, 128), _half(128, 192), _half(192))
    ),
    "bmm": Sample(torch.bmm, (_half(3, 32, 64), _half(3, 64, 48))),
    "two_programs": Sample(lambda x: (x.softmax(-1) @ x.t()).softmax(-1), (_half(64, 128),)),
    "heads": Sample(lambda x: x.view(4, 32, 8, 16).transpose(1, 2) * 2, (_half(4, 32, 128),)),
    "transpose": Sample(lambda x, y: x.t() + y, (_half(100, 70), _half(70, 100))),
    "slice": Sample(lambda x: x[:, 5:70] * 2, (_half(16, 100),)),
    "cat": Sample(lambda x, y: torch.cat([x, y], 1), (_half(8, 10), _half(8, 30))),
    "gather": Sample(functional.embedding, (_indices(2, 9, below=40), _half(40, 128))),
    "sum_rows": Sample(lambda x: x.sum(0), (_half(100, 128),)),
    "sum_over_cores": Sample(lambda x: x.sum(0), (_half(4096, 128),)),
    "integers": Sample(
        lambda x, y: (x + y) * 3, (_indices(10, 40, below=100), _indices(10, 40, below=50))
    ),
    "choice": Sample(lambda x: torch.where(x > 0, x, 0.5 * x), (_half(6, 129).float(),)),
    "attention": Sample(
        lambda query, key, value: functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        ),
        (_half(1, 4, 70, 64), _half(1, 2, 90, 64), _half(1, 2, 90, 64)),
    ),
    "cast": Sample(lambda x: x.float() * 3, (_half(32, 128),)),
}

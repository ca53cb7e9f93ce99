"""Functions that cover the kinds of kernels that the compiler makes, with their arguments."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from kernel_samples import SAMPLES
from torch.nn import functional


@dataclass(frozen=True)
class Function:
    """A function of tensors on the card."""

    call: Callable[..., object]
    tensors: tuple[torch.Tensor, ...]

    def on_card(self) -> tuple[torch.Tensor, ...]:
        return tuple(
            tensor.detach().to("spyre").requires_grad_(tensor.requires_grad)
            for tensor in self.tensors
        )


def _random(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def _integers(*shape: int, dtype: torch.dtype = torch.int64, below: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(below, shape, generator=generator).to(dtype)


def _in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2).add_(y)
    return x


def _write_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[3:7, 10:75] = y[:4, :65] * 2
    return x


def _write_indices(x: torch.Tensor, indices: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.index_put((indices,), y)


def _views_with_offsets(x: torch.Tensor) -> torch.Tensor:
    return x[2:, 3:] * x[:-2, :-3]


def _to_and_from_float8(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float8_e4m3fn).to(torch.float32) + 1


def _gradients(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    loss = functional.gelu(functional.layer_norm(x, x.shape[-1:]) @ weight).float().pow(2).mean()
    loss.backward()
    assert x.grad is not None and weight.grad is not None
    return x.grad.sum() + weight.grad.sum()


def _adam(x: torch.Tensor) -> torch.Tensor:
    parameter = torch.nn.Parameter(x.detach().clone())
    parameter.grad = x * 0.5
    torch.optim.Adam([parameter], lr=0.1, fused=True).step()
    return parameter


def _scalars(x: torch.Tensor) -> torch.Tensor:
    """From the fifth value on, eager scalars are arguments of the program."""
    for value in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        x = x * value + 1
    return x


def _masked_attention(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, key, attn_mask=mask)


FUNCTIONS = {name: Function(sample.call, sample.tensors) for name, sample in SAMPLES.items()} | {
    "in_place": Function(_in_place, (_random(70, 100), _random(100))),
    "write_slice": Function(_write_slice, (_random(10, 100), _random(5, 70))),
    "write_indices": Function(
        _write_indices, (_random(20, 100), torch.tensor([3, 17, 5]), _random(3, 100))
    ),
    "views_with_offsets": Function(_views_with_offsets, (_random(12, 130),)),
    "float8": Function(_to_and_from_float8, (_random(9, 140, dtype=torch.float32),)),
    "uint8": Function(
        lambda x, y: (x + y) // 3, (_integers(9, 70, dtype=torch.uint8, below=250),) * 2
    ),
    "int8": Function(lambda x: (x * 3 - 7).abs(), (_integers(9, 140, dtype=torch.int8),)),
    "bools": Function(lambda x, y: (x > y) & ~(x == y), (_random(9, 70), _random(70))),
    "indices": Function(lambda x: (x.argmax(-1), x.max(0).indices), (_random(30, 90),)),
    "sort": Function(lambda x: torch.sort(x, -1), (_random(4, 20),)),
    "cumsum": Function(lambda x: x.cumsum(-1), (_random(6, 70, dtype=torch.float32),)),
    "scatter": Function(
        lambda x, index: torch.zeros_like(x).scatter_add(0, index, x),
        (_random(6, 40, dtype=torch.float32), _integers(6, 40, below=6)),
    ),
    "convolution": Function(functional.conv2d, (_random(2, 3, 12, 12), _random(4, 3, 3, 3))),
    "linear_float32": Function(
        functional.linear,
        (_random(20, 70, dtype=torch.float32), _random(33, 70, dtype=torch.float32)),
    ),
    "masked_attention": Function(
        _masked_attention,
        (_random(2, 3, 20, 64), _random(2, 3, 70, 64), _random(20, 70).clamp(max=0) * 100),
    ),
    "gradients": Function(
        _gradients, (_random(20, 96).requires_grad_(), _random(96, 64).requires_grad_())
    ),
    "adam": Function(_adam, (_random(30, 70),)),
    "scalars": Function(_scalars, (_random(5, 70),)),
    "random_mask": Function(lambda x: functional.dropout(x, 0.5), (_random(40, 70),)),
    "prod_and_var": Function(
        lambda x: (x.prod(-1), x.var(0), x.logsumexp(-1)),
        (_random(9, 30, dtype=torch.float32),),
    ),
    "powers": Function(lambda x: (x.abs() ** 1.7, x**3, 2**x, x.rsqrt()), (_random(9, 70),)),
    "remainders": Function(
        lambda x, y: (x % 3, torch.fmod(x, 0.7), y // 4, y % 5),
        (_random(9, 70), _integers(9, 70) - 4),
    ),
    "trigonometry": Function(
        lambda x: (x.sin(), x.cos(), x.tan(), x.atan(), x.erf()), (_random(9, 70) * 5,)
    ),
    "loss": Function(
        lambda x, y: functional.cross_entropy(x, y), (_random(20, 33), _integers(20, below=33))
    ),
}

"""Kernels of random ops that consist of draws and other ops of the card."""

from typing import Any

import torch

from torch_spyre.ops.random_values import largest_exact_integer

Generator = torch.Generator | None


def bernoulli_out(
    probabilities: torch.Tensor, *, generator: Generator = None, out: torch.Tensor
) -> torch.Tensor:
    return out.resize_(probabilities.shape).bernoulli_(probabilities, generator=generator)


def normal(
    mean: torch.Tensor | float, std: torch.Tensor | float = 1, *, generator: Generator = None
) -> torch.Tensor:
    tensors = [value for value in (mean, std) if isinstance(value, torch.Tensor)]
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    dtype = torch.result_type(mean, std)
    return normal_out(mean, std, generator=generator, out=tensors[0].new_empty(shape, dtype=dtype))


def normal_out(
    mean: torch.Tensor | float,
    std: torch.Tensor | float = 1,
    *,
    generator: Generator = None,
    out: torch.Tensor,
) -> torch.Tensor:
    tensors = [value for value in (mean, std) if isinstance(value, torch.Tensor)]
    if not isinstance(std, torch.Tensor):
        torch._check(std >= 0, lambda: f"normal expects std >= 0.0, but found std {std:g}")
    elif std.numel() and not (std.amin() >= 0).item():
        raise RuntimeError("normal expects all elements of std >= 0.0")
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    draws = torch.empty(shape, dtype=torch.float32, device=tensors[0].device)
    draws.normal_(generator=generator)
    return out.resize_(shape).copy_(draws * std + mean)


def randperm_out(n: int, *, generator: Generator = None, out: torch.Tensor) -> torch.Tensor:
    """Return the order of n random words. Equal words, which are rare, retain their order."""
    is_float = out.dtype.is_floating_point
    largest = largest_exact_integer(out.dtype) if is_float else torch.iinfo(out.dtype).max
    if n < 0 or n - 1 > largest:
        torch.randperm(n, dtype=out.dtype)  # the CPU kernel raises the error
    words = torch.empty(n, dtype=torch.int32, device=out.device)
    words.random_(-(2**31), None, generator=generator)
    return out.resize_(n).copy_(words.sort(stable=True).indices)


def rrelu_with_noise(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Generator = None,
) -> torch.Tensor:
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)
    slopes = torch.empty_like(x).uniform_(lower, upper, generator=generator)
    noise.copy_(torch.where(x <= 0, slopes, 1.0))
    return x * noise


def rrelu_with_noise_(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return x.copy_(rrelu_with_noise(x, *args, **kwargs))


def rrelu_with_noise_out(
    x: torch.Tensor, *args: Any, out: torch.Tensor, **kwargs: Any
) -> torch.Tensor:
    result = rrelu_with_noise(x, *args, **kwargs)
    return out.resize_(result.shape).copy_(result)

"""What is folded along dims: variances, softmax, any and all, a loss."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten


@decomposes(aten.var.correction)
def _var(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> torch.Tensor:
    dims = list(range(x.dim())) if dim is None or len(dim) == 0 else list(dim)
    # A single number has no dims, but may be asked for its first.
    count = math.prod(x.shape[each] for each in dims) if x.dim() else 1
    freedom = count - (1 if correction is None else correction)
    centred = x - x.mean(dims, keepdim=True)
    total = (centred * centred).mean(dims, keepdim=keepdim)
    if freedom > 0:
        return total * (count / freedom)
    # A division by zero, without relying on what an infinity does on the card.
    return torch.where(total > 0, math.inf, math.nan).to(x.dtype)


@decomposes(aten.std.correction)
def _std(x: torch.Tensor, dim: Sequence[int] | None = None, **options: Any) -> torch.Tensor:
    # Squares of small halves are below the smallest one, whose roots are not.
    wide = x.to(torch.float32) if x.dtype in HALF_DTYPES else x
    return torch.sqrt(_var(wide, dim, **options)).to(x.dtype)


def _with_mean(spread: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def both(
        x: torch.Tensor,
        dim: Sequence[int] | None = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dims = list(range(x.dim())) if dim is None else list(dim)
        found = spread(x, dim, correction=correction, keepdim=keepdim)
        return found, x.mean(dims, keepdim=keepdim)

    return both


decomposes(aten.var_mean.correction)(_with_mean(_var))
decomposes(aten.std_mean.correction)(_with_mean(_std))


@decomposes(aten.any.default, aten.any.dim, aten.any.dims)
def _any(x: torch.Tensor, *dims: Any, **options: Any) -> Any:
    """PyTorch's gives bytes for bytes."""
    if x.dtype is not torch.uint8:
        return NotImplemented
    return torch.any(x != 0, *dims, **options).to(torch.uint8)


@decomposes(aten.all.default, aten.all.dim, aten.all.dims)
def _all(x: torch.Tensor, *dims: Any, **options: Any) -> torch.Tensor:
    found = torch.logical_not(torch.any(torch.logical_not(x), *dims, **options))
    return found.to(torch.uint8) if x.dtype is torch.uint8 else found


@decomposes(aten._softmax.default)
def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    weights = torch.exp(_below_largest(x, dim, half_to_float))
    return weights / weights.sum(dim, keepdim=True)


@decomposes(aten._log_softmax.default)
def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    shifted = _below_largest(x, dim, half_to_float)
    return shifted - torch.log(torch.exp(shifted).sum(dim, keepdim=True))


def _below_largest(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Less the largest along a dim, which nothing is then above; NaN where that is infinite."""
    if half_to_float:
        x = x.to(torch.float32)
    if x.numel() == 0 or x.dim() == 0:
        return x - x
    largest = x.amax(dim, keepdim=True)
    if x.dtype is not torch.float32:
        # The difference of two infinities is zero in the card's halves.
        largest = torch.where(torch.isinf(largest), math.nan, largest)
    return x - largest


@decomposes(aten._softmax_backward_data.default)
def _softmax_backward(
    gradient: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype
) -> torch.Tensor:
    product = gradient * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


@decomposes(aten.soft_margin_loss.default)
def _soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """PyTorch's own takes the logarithm of an exponential, which soon exceeds 16 bits."""
    losses = torch.nn.functional.softplus(-x * target)
    if reduction == 0:
        return losses
    return losses.mean() if reduction == 1 else losses.sum()

"""Decompositions of reductions: variances, sums of uint8, `any`, `all`, softmax, and losses."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre.dtypes import HALF_DTYPES

aten = torch.ops.aten


@register_decomposition(aten.var.correction)
def _var(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> torch.Tensor:
    dims = list(range(x.dim())) if dim is None or len(dim) == 0 else list(dim)
    # A 0-d tensor may be reduced along dim 0.
    count = math.prod(x.shape[reduced_dim] for reduced_dim in dims) if x.dim() else 1
    divisor = count - (1 if correction is None else correction)
    centred = x - x.mean(dims, keepdim=True)
    mean_square = (centred * centred).mean(dims, keepdim=keepdim)
    if divisor > 0:
        return mean_square * (count / divisor)
    # A division by zero, without relying on the card's arithmetic with infinities.
    return torch.where(mean_square > 0, math.inf, math.nan).to(x.dtype)


@register_decomposition(aten.std.correction)
def _std(x: torch.Tensor, dim: Sequence[int] | None = None, **options: Any) -> torch.Tensor:
    # Squares of small 16-bit floats underflow, though their roots do not.
    widened = x.to(torch.float32) if x.dtype in HALF_DTYPES else x
    return torch.sqrt(_var(widened, dim, **options)).to(x.dtype)


def _with_mean(deviation: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Return the op that computes `_var` or `_std`, and the mean."""

    def deviation_and_mean(
        x: torch.Tensor,
        dim: Sequence[int] | None = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dims = list(range(x.dim())) if dim is None else list(dim)
        result = deviation(x, dim, correction=correction, keepdim=keepdim)
        return result, x.mean(dims, keepdim=keepdim)

    return deviation_and_mean


register_decomposition(aten.var_mean.correction)(_with_mean(_var))
register_decomposition(aten.std_mean.correction)(_with_mean(_std))


def _wrapped_to_uint8(reduce: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Return the op that reduces in 32 bits, in which the card stores uint8, and then wraps."""

    def reduction(
        x: torch.Tensor, *dims: Any, dtype: torch.dtype | None = None, **options: Any
    ) -> Any:
        if dtype is not torch.uint8:
            return NotImplemented
        return reduce(x.to(dtype), *dims, dtype=torch.int32, **options).to(dtype)

    return reduction


register_decomposition(aten.sum.default, aten.sum.dim_IntList)(_wrapped_to_uint8(torch.sum))
register_decomposition(aten.prod.default, aten.prod.dim_int)(_wrapped_to_uint8(torch.prod))


@register_decomposition(aten.any.default, aten.any.dim, aten.any.dims)
def _any(x: torch.Tensor, *dims: Any, **options: Any) -> Any:
    """Return uint8 for uint8, as PyTorch's `any` does. An empty list of dims reduces nothing."""
    if dims and dims[0] == []:
        return (x != 0).to(torch.uint8 if x.dtype is torch.uint8 else torch.bool)
    if x.dtype is not torch.uint8:
        return NotImplemented
    return torch.any(x != 0, *dims, **options).to(torch.uint8)


@register_decomposition(aten.all.default, aten.all.dim, aten.all.dims)
def _all(x: torch.Tensor, *dims: Any, **options: Any) -> torch.Tensor:
    result = torch.logical_not(torch.any(torch.logical_not(x), *dims, **options))
    return result.to(torch.uint8) if x.dtype is torch.uint8 else result


def _of_all_dims(reduce: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Return `amax` or `amin` of bools: Inductor's reduce nothing for an empty list of dims."""

    def reduction(x: torch.Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
        if x.dtype is not torch.bool or len(dim) > 0 or x.dim() == 0:
            return NotImplemented
        return reduce(x, list(range(x.dim())), keepdim)

    return reduction


register_decomposition(aten.amax.default)(_of_all_dims(torch.amax))
register_decomposition(aten.amin.default)(_of_all_dims(torch.amin))


@register_decomposition(aten._softmax.default)
def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    weights = torch.exp(_minus_max(x, dim, half_to_float))
    return weights / weights.sum(dim, keepdim=True)


@register_decomposition(aten._log_softmax.default)
def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    shifted = _minus_max(x, dim, half_to_float)
    return shifted - torch.log(torch.exp(shifted).sum(dim, keepdim=True))


def _minus_max(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Return x minus its maximum along a dim; NaN if that is infinite."""
    if half_to_float:
        x = x.to(torch.float32)
    if x.numel() == 0 or x.dim() == 0:
        return x - x
    maximum = x.amax(dim, keepdim=True)
    if x.dtype is not torch.float32:
        # The difference of two infinities is zero in the card's 16-bit floats.
        maximum = torch.where(torch.isinf(maximum), math.nan, maximum)
    return x - maximum


@register_decomposition(aten._softmax_backward_data.default)
def _softmax_backward(
    gradient: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype
) -> torch.Tensor:
    product = gradient * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


@register_decomposition(aten.soft_margin_loss.default)
def _soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """Compute the loss by softplus: the exponential in PyTorch's own overflows 16-bit floats."""
    losses = torch.nn.functional.softplus(-x * target)
    if reduction == 0:
        return losses
    return losses.mean() if reduction == 1 else losses.sum()

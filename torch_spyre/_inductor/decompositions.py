"""Our own decompositions, and those of Inductor's that we do without."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

aten = torch.ops.aten
_OURS: dict[Any, Callable[..., Any]] = {}
# One instruction of the card each: lowered as they are.
_KEPT = (aten.silu, aten.gelu)


@cache
def table() -> dict[Any, Callable[..., Any]]:
    from torch._inductor.decomposition import select_decomp_table

    from torch_spyre._inductor import attention  # noqa: F401  (registers what it decomposes)

    found = dict(select_decomp_table())
    # Products are products on the card, whatever their sizes; what we lower ourselves.
    for overload in (aten.mm.default, aten.bmm.default, aten.index_select.default):
        found.pop(overload, None)
    for packet in _KEPT:
        for name in packet.overloads():
            found.pop(getattr(packet, name), None)
    # `approximate="tanh"` is not the instruction's.
    found[aten.gelu.default] = _gelu
    found.update(_OURS)
    return found


def decomposes(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            _OURS[overload] = function
        return function

    return register


def _gelu(x: torch.Tensor, approximate: str = "none") -> Any:
    if approximate == "none":
        return NotImplemented
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


@decomposes(aten.addmm.default)
def _addmm(
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    return _added(bias, torch.mm(left, right), beta, alpha)


@decomposes(aten.baddbmm.default)
def _baddbmm(
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    return _added(bias, torch.bmm(left, right), beta, alpha)


@decomposes(aten.addbmm.default)
def _addbmm(
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    # One product over both dims that are summed.
    wide = left.transpose(0, 1).reshape(left.shape[1], -1)
    return _added(bias, torch.mm(wide, right.reshape(-1, right.shape[2])), beta, alpha)


@decomposes(aten.tan.default)
def _tan(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) / torch.cos(x)


@decomposes(aten.cosh.default)
def _cosh(x: torch.Tensor) -> torch.Tensor:
    grown = torch.exp(x)
    return 0.5 * grown + 0.5 / grown


@decomposes(aten.sinh.default)
def _sinh(x: torch.Tensor) -> torch.Tensor:
    # Of the magnitude, where nothing cancels; and large ones are their own exponential.
    grown = torch.expm1(torch.abs(x))
    return torch.copysign(0.5 * (grown + grown / (grown + 1)), x)


@decomposes(aten.glu.default)
def _glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    if x.shape[dim] % 2:
        raise ValueError(f"glu: dimension {dim} of size {x.shape[dim]} has no halves")
    values, gates = x.chunk(2, dim)
    return values * torch.sigmoid(gates)


def _added(bias: torch.Tensor, product: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    if not product.is_floating_point():  # as on the CPU
        alpha, beta = int(alpha), int(beta)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (bias if beta == 1 else bias * beta)


@decomposes(aten.isneginf.default)
def _isneginf(x: torch.Tensor) -> torch.Tensor:
    return x == -math.inf


@decomposes(aten.isposinf.default)
def _isposinf(x: torch.Tensor) -> torch.Tensor:
    return x == math.inf


@decomposes(aten.mv.default)
def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)


@decomposes(aten.dot.default)
def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.mm(left.unsqueeze(0), right.unsqueeze(1)).reshape(())


@decomposes(aten.addcmul.default)
def _addcmul(
    x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, value: float = 1
) -> torch.Tensor:
    product = first * second
    return x + (product if value == 1 else product * value)


@decomposes(aten.addcdiv.default)
def _addcdiv(
    x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, value: float = 1
) -> torch.Tensor:
    quotient = first / second
    return x + (quotient if value == 1 else quotient * value)


@decomposes(aten.var.correction)
def _var(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> torch.Tensor:
    dims = list(range(x.dim())) if dim is None or len(dim) == 0 else list(dim)
    count = 1
    for each in dims:
        count *= x.shape[each]
    freedom = count - (1 if correction is None else correction)
    centred = x - x.mean(dims, keepdim=True)
    total = (centred * centred).mean(dims, keepdim=keepdim)
    if freedom > 0:
        return total * (count / freedom)
    # A division by zero, without relying on what an infinity does on the card.
    return torch.where(total > 0, math.inf, math.nan).to(x.dtype)


@decomposes(aten.var_mean.correction)
def _var_mean(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = list(range(x.dim())) if dim is None else list(dim)
    return _var(x, dim, correction=correction, keepdim=keepdim), x.mean(dims, keepdim=keepdim)


@decomposes(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def _shrink_backward(gradient: torch.Tensor, x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.where(torch.abs(x) <= limit, 0.0, gradient)


@decomposes(aten.soft_margin_loss.default)
def _soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """PyTorch's own takes the logarithm of an exponential, which soon exceeds 16 bits."""
    losses = torch.nn.functional.softplus(-x * target)
    if reduction == 0:
        return losses
    return losses.mean() if reduction == 1 else losses.sum()


@decomposes(aten._softmax_backward_data.default)
def _softmax_backward(
    gradient: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype
) -> torch.Tensor:
    product = gradient * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


@decomposes(aten.native_layer_norm.default)
def _layer_norm(
    x: torch.Tensor,
    shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    scale = torch.rsqrt((centred * centred).mean(dims, keepdim=True) + eps)
    result = centred * scale
    if weight is not None:
        result = result * weight
    if bias is not None:
        result = result + bias
    return result, mean, scale

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


@decomposes(aten.sub.Tensor)
def _sub(x: Any, other: Any, *, alpha: float = 1) -> Any:
    # What traces ops has a quick way for sums that does not ask. Numbers come here too.
    types = [each.dtype for each in (x, other) if isinstance(each, torch.Tensor)]
    torch._check(
        torch.bool not in types,
        lambda: (
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        ),
    )
    return NotImplemented


@decomposes(aten.clamp.default, aten.clamp.Tensor)
def _clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:
    # Inductor's own would give back what it got.
    torch._check(
        min is not None or max is not None,
        lambda: "torch.clamp: At least one of 'min' or 'max' must not be None",
    )
    x = x if min is None else torch.clamp_min(x, min)
    return x if max is None else torch.clamp_max(x, max)


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


def _added(bias: torch.Tensor, product: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
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
    return total * (count / freedom) if freedom > 0 else total * float("nan")


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

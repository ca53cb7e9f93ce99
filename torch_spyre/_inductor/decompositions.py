"""Our own decompositions, and those of Inductor's that we do without."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from torch_spyre.ops import recurrent

aten = torch.ops.aten
_OURS: dict[Any, Callable[..., Any]] = {}
# One instruction of the card each: lowered as they are.
_KEPT = (aten.silu, aten.gelu)


@cache
def table() -> dict[Any, Callable[..., Any]]:
    from torch._inductor.decomposition import select_decomp_table

    # They register what they decompose.
    from torch_spyre._inductor import (  # noqa: F401  # for their tables
        adaptive_pooling,
        antialiasing,
        attention,
        bessel_functions,
        convolution_gradients,
        convolutions,
        division,
        embedding_bags,
        foreach,
        gamma_functions,
        grid_sampling,
        indexing,
        norms,
        pooling,
        resampling,
        scaled_products,
        scans,
        sequences,
        sorting,
        special_functions,
        triangles,
        triangular_systems,
        unfolding,
        unpooling,
    )

    found = dict(select_decomp_table())
    # Products are products on the card, whatever their sizes; what we lower ourselves.
    for overload in (aten.mm.default, aten.bmm.default, aten.index_select.default):
        found.pop(overload, None)
    for packet in _KEPT:
        for name in packet.overloads():
            found.pop(getattr(packet, name), None)
    # The instruction is of halves, and not of `approximate="tanh"`.
    found[aten.gelu.default] = _gelu
    found.update(_OURS)
    found.update(recurrent.CELLS)
    return found


def decomposes(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            _OURS[overload] = function
        return function

    return register


def _gelu(x: torch.Tensor, approximate: str = "none") -> Any:
    if approximate == "none":
        if x.dtype is torch.float32:
            return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
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


def _plus_bias(multiply: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def with_bias(
        bias: torch.Tensor,
        left: torch.Tensor,
        right: torch.Tensor,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> torch.Tensor:
        product = multiply(left, right)
        if not product.is_floating_point():  # as on the CPU
            alpha, beta = int(alpha), int(beta)
        product = product if alpha == 1 else product * alpha
        if beta == 0:
            return product
        return product + (bias if beta == 1 else bias * beta)

    return with_bias


def _mm_of_batches(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    # One product over both dims that are summed.
    wide = left.transpose(0, 1).reshape(left.shape[1], -1)
    return torch.mm(wide, right.reshape(-1, right.shape[2]))


decomposes(aten.addmm.default)(_plus_bias(torch.mm))
decomposes(aten.baddbmm.default)(_plus_bias(torch.bmm))
decomposes(aten.addbmm.default)(_plus_bias(_mm_of_batches))


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
    shrunk = torch.reciprocal(1 + torch.reciprocal(grown))
    return torch.copysign(0.5 * (grown + shrunk), x)


@decomposes(aten.glu.default)
def _glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    if x.shape[dim] % 2:
        raise ValueError(f"glu: dimension {dim} of size {x.shape[dim]} has no halves")
    values, gates = x.chunk(2, dim)
    return values * torch.sigmoid(gates)


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


def _plus_pair(combine: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def added(
        x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, value: float = 1
    ) -> torch.Tensor:
        if combine is torch.true_divide:
            torch._check(
                first.is_floating_point() or second.is_floating_point(),
                lambda: (
                    "Integer division with addcdiv is no longer supported: use (input + value * "
                    "torch.trunc(tensor1 / tensor2)).to(input.dtype), or convert to floats first"
                ),
            )
        # Small squares of halves would not outlive their own format.
        first = first.to(torch.promote_types(x.dtype, first.dtype))
        pair = combine(first, second)
        return x + (pair if value == 1 else pair * value)

    return added


decomposes(aten.addcmul.default)(_plus_pair(torch.mul))
decomposes(aten.addcdiv.default)(_plus_pair(torch.true_divide))


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


@decomposes(aten.repeat.default)
def _repeat(x: torch.Tensor, repeats: Sequence[int]) -> torch.Tensor:
    size = [*[1] * (len(repeats) - x.dim()), *x.shape]
    pairs = [each for n in size for each in (1, n)]
    wanted = [each for times, n in zip(repeats, size, strict=True) for each in (times, n)]
    result = [times * n for times, n in zip(repeats, size, strict=True)]
    # In order, whatever the order of what is repeated: those who view the result rely on that.
    whole = x.reshape(pairs).expand(wanted).clone(memory_format=torch.contiguous_format)
    return whole.reshape(result)


@decomposes(aten.eye.m)
def _eye(
    n: int,
    m: int,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    rows, columns = (torch.arange(each, device=device) for each in (n, m))
    return (rows[:, None] == columns).to(dtype or torch.get_default_dtype())


@decomposes(aten.eye.default)
def _square_eye(n: int, **options: Any) -> Any:
    return _eye(n, n, **options)


@decomposes(aten.__lshift__.Tensor, aten.__lshift__.Scalar)
def _left_shift(x: torch.Tensor, bits: torch.Tensor | int) -> torch.Tensor:
    return x << bits if x.dtype.is_floating_point else torch.bitwise_left_shift(x, bits)


@decomposes(aten.__rshift__.Tensor, aten.__rshift__.Scalar)
def _right_shift(x: torch.Tensor, bits: torch.Tensor | int) -> torch.Tensor:
    return x >> bits if x.dtype.is_floating_point else torch.bitwise_right_shift(x, bits)


@decomposes(aten.pow.Tensor_Scalar)
def _power(base: torch.Tensor, exponent: float) -> Any:
    if base.dtype not in (torch.float16, torch.bfloat16) or _is_half(exponent):
        return NotImplemented
    return torch.pow(base.to(torch.float32), exponent).to(base.dtype)


@decomposes(aten.pow.Scalar)
def _power_of_number(base: float, exponent: torch.Tensor) -> Any:
    if exponent.dtype in (torch.float16, torch.bfloat16) and not _is_half(base):
        return torch.pow(base, exponent.to(torch.float32)).to(exponent.dtype)
    if exponent.dtype.is_floating_point or isinstance(base, float):
        return NotImplemented
    dtype = torch.result_type(base, exponent)  # flags have no number for a base
    return torch.pow(torch.full_like(exponent, base, dtype=dtype), exponent)


def _is_half(number: float) -> bool:
    """Do the card's halves hold it exactly? A power multiplies what rounding takes away."""
    fraction, _ = math.frexp(number)
    return not math.isfinite(number) or (fraction * 1024).is_integer()


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

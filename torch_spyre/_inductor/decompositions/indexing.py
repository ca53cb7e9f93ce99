"""Decompositions of ops that read or write through indices, and of `nonzero_static`."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten


@register_decomposition(aten.masked_scatter.default)
def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    torch._check(mask.dtype is torch.bool, lambda: f"masked_scatter: a mask of {mask.dtype}")
    mask, x = torch.broadcast_tensors(mask, x)
    if source.numel() == 0:  # the mask selects nothing
        return x.clone()
    position = torch.cumsum(mask.reshape(-1), 0).reshape(x.shape) - 1
    return torch.where(mask, source.reshape(-1)[position.clamp(min=0)], x)


def _row_index(
    name: str, x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> tuple[int, torch.Tensor, torch.Tensor]:
    """Return the arguments of a scatter for an op on the rows of a dim."""
    if x.dim() == 1:
        source = source.reshape(-1)
    dim %= x.dim()
    expected = [*x.shape]
    expected[dim] = index.numel()
    torch._check(
        list(source.shape) == expected,
        lambda: f"{name}: expected a source of shape {expected}, got {list(source.shape)}",
    )
    column = index.reshape(-1, *[1] * (x.dim() - 1 - dim))
    return dim, column.expand(source.shape), source


@register_decomposition(aten.index_add.default)
def _index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: float = 1
) -> Any:
    if x.dim() == 0:
        return _index_add(x[None], 0, index.reshape(1), source.reshape(1), alpha=alpha)[0]
    dim, index, source = _row_index("index_add", x, dim, index, source)
    scaled = source if alpha == 1 else source * alpha
    return aten.scatter_add(x, dim, index, scaled)


@register_decomposition(aten.index_reduce.default)
def _index_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    if x.dim() == 0:
        rows = source.reshape(1)
        return _index_reduce(x[None], 0, index.reshape(1), rows, reduce, include_self=include_self)[
            0
        ]
    dim, index, source = _row_index("index_reduce", x, dim, index, source)
    return aten.scatter_reduce(x, dim, index, source, reduce, include_self=include_self)


@register_decomposition(aten.index_copy.default)
def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
    if x.dim() == 0:
        return _index_copy(x[None], 0, index.reshape(1), source.reshape(1))[0]
    dim, index, source = _row_index("index_copy", x, dim, index, source)
    return aten.scatter(x, dim, index, source)


@register_decomposition(aten.put.default)
def _put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> Any:
    if index.numel() == 0:
        return x.clone()
    positions, values = index.reshape(-1), source.reshape(-1)
    positions = torch.where(positions < 0, positions + x.numel(), positions)
    scatter = aten.scatter_add if accumulate else aten.scatter
    return scatter(x.reshape(-1), 0, positions, values).reshape(x.shape)


@register_decomposition(aten.take.default)
def _take(x: torch.Tensor, index: torch.Tensor) -> Any:
    if x.numel() == 0 and index.numel() > 0:
        return NotImplemented
    if index.dim() == 0:
        return aten.index(x.reshape(-1), [index.reshape(1)]).reshape(())
    return aten.index(x.reshape(-1), [index])


@register_decomposition(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def _index_fill(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> Any:
    if x.dim() == 0:
        return _index_fill(x[None], 0, index.reshape(1), value)[0]
    indices = [None] * (dim % x.dim()) + [index.reshape(-1)]
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    torch._check(value.dim() == 0, lambda: "index_fill_ only supports a 0-dimensional value tensor")
    return aten.index_put(x, indices, value.to(x.dtype))


@register_decomposition(aten._index_put_impl.default)
def _index_put_impl(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    return aten.index_put(x, indices, values, accumulate)


@register_decomposition(aten.embedding_dense_backward.default)
def _embedding_backward(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    if scale_grad_by_freq:
        index = indices.reshape(-1)
        counts = torch.zeros(num_weights, dtype=torch.int32, device=indices.device)
        counts = counts.scatter_add(0, index, torch.ones_like(index, dtype=torch.int32))
        frequency = counts[indices].to(gradient.dtype)
        gradient = gradient / frequency.unsqueeze(-1)
    if padding_idx >= 0:
        gradient = gradient.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    result = gradient.new_zeros(num_weights, gradient.shape[-1])
    rows = gradient.reshape(-1, gradient.shape[-1])
    return aten.scatter_add(result, 0, indices.reshape(-1, 1).expand(rows.shape), rows)


@register_decomposition(aten.nonzero_static.default)
def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """Return the indices of the first `size` nonzero elements as rows; fill the remaining rows."""
    torch._check(size >= 0, lambda: "nonzero_static: size must be an non-negative integer")
    if 0 in (size, x.dim(), x.numel()):
        return x.new_full((size, x.dim()), fill_value, dtype=torch.int64)
    is_nonzero = (x != 0).reshape(-1)
    # All other elements are scattered to one extra position, which is dropped.
    rank = torch.where(is_nonzero, torch.cumsum(is_nonzero, 0) - 1, size).clamp(max=size)
    flat_indices = torch.arange(is_nonzero.shape[0], device=x.device)
    selected = x.new_full((size + 1,), -1, dtype=torch.int64).scatter(0, rank, flat_indices)[:size]
    is_filled, columns, quotient = selected >= 0, [], selected
    for length in reversed(x.shape):
        columns.append(torch.where(is_filled, quotient % length, fill_value))
        quotient = torch.div(quotient, length, rounding_mode="floor")
    return torch.stack(columns[::-1], -1)

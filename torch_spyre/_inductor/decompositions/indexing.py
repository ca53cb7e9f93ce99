"""Decompositions of reads and writes at rows or elements that a tensor of indices names."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes

aten = torch.ops.aten


@decomposes(aten.masked_scatter.default)
def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    mask, x = torch.broadcast_tensors(mask, x)
    place = torch.cumsum(mask.reshape(-1), 0).reshape(x.shape) - 1
    return torch.where(mask, source.reshape(-1)[place.clamp(min=0)], x)


def _rows_at(
    name: str, x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> tuple[list[torch.Tensor | None], torch.Tensor]:
    """Where rows of the source go, for ops that do not count from the end."""
    if x.dim() == 1:
        source = source.reshape(-1)
    wanted = [*x.shape]
    wanted[dim] = index.numel()
    torch._check(
        list(source.shape) == wanted,
        lambda: f"{name}: a source of shape {wanted} is wanted, got {list(source.shape)}",
    )
    # Negative ones are still negative when they have been wrapped.
    index = torch.where(index < 0, index - x.shape[dim], index)
    return [*[None] * (dim % x.dim()), index.reshape(-1)], source


@decomposes(aten.index_add.default)
def _index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: float = 1
) -> Any:
    if x.dim() == 0:
        return _index_add(x[None], 0, index.reshape(1), source.reshape(1), alpha=alpha)[0]
    places, source = _rows_at("index_add", x, dim, index, source)
    scaled = source if alpha == 1 else source * alpha
    return aten.index_put(x, places, scaled, accumulate=True)


@decomposes(aten.index_reduce.default)
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
    places, source = _rows_at("index_reduce", x, dim, index, source)
    (index,) = (each for each in places if each is not None)
    index = index.reshape(-1, *[1] * (x.dim() - len(places))).expand(source.shape)
    return aten.scatter_reduce(x, dim, index, source, reduce, include_self=include_self)


@decomposes(aten.index_copy.default)
def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
    if x.dim() == 0:
        return _index_copy(x[None], 0, index.reshape(1), source.reshape(1))[0]
    places, source = _rows_at("index_copy", x, dim, index, source)
    return aten.index_put(x, places, source)


@decomposes(aten.put.default)
def _put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> Any:
    if index.numel() == 0:
        return x.clone()
    places, values = index.reshape(-1), source.reshape(-1)
    places = torch.where(places < 0, places + x.numel(), places)
    scattered = aten.scatter_add if accumulate else aten.scatter
    return scattered(x.reshape(-1), 0, places, values).reshape(x.shape)


@decomposes(aten.take.default)
def _take(x: torch.Tensor, index: torch.Tensor) -> Any:
    if x.numel() == 0 and index.numel() > 0:
        return NotImplemented
    if index.dim() == 0:
        return aten.index(x.reshape(-1), [index.reshape(1)]).reshape(())
    return aten.index(x.reshape(-1), [index])


@decomposes(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def _index_fill(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> Any:
    if x.dim() == 0:
        return _index_fill(x[None], 0, index.reshape(1), value)[0]
    places = [None] * (dim % x.dim()) + [index.reshape(-1)]
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    torch._check(value.dim() == 0, lambda: "index_fill_ only supports a 0-dimensional value tensor")
    return aten.index_put(x, places, value.to(x.dtype))


@decomposes(aten._index_put_impl.default)
def _index_put_impl(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    return aten.index_put(x, indices, values, accumulate)


@decomposes(aten.embedding_dense_backward.default)
def _embedding_backward(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    if scale_grad_by_freq:
        alike = indices.reshape(-1, 1) == indices.reshape(1, -1)
        often = alike.sum(1).reshape(indices.shape).to(gradient.dtype)
        gradient = gradient / often.unsqueeze(-1)
    if padding_idx >= 0:
        gradient = gradient.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    result = gradient.new_zeros(num_weights, gradient.shape[-1])
    return aten.index_put(result, [indices], gradient, accumulate=True)

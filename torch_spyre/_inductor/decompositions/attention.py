"""Scaled dot-product attention: one kernel, or taken apart; and its gradients.

Taken apart it is products and a softmax. Scores are scaled through the queries. Rows whose every
score is masked give zeros, as PyTorch's safe softmax does. Heads that share keys and values are
rows of one product.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import decomposes
from torch_spyre.dtypes import FLOAT_DTYPES
from torch_spyre.ops.attention import OVERLOAD as ATTENTION_OP

aten = torch.ops.aten
# More of them leave too little room for keys in a scratchpad.
MOST_CHANNELS = 1024


@decomposes(aten._scaled_dot_product_fused_attention_overrideable.default)
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    has_batches = query.dim() != 3
    if not has_batches:
        query, key, value = (each.unsqueeze(0) for each in (query, key, value))
    if key.shape[-2] == 0:
        result = query.new_zeros((*query.shape[:-1], value.shape[-1]))
        logsumexp = query.new_zeros(query.shape[:-1], dtype=torch.float32)
    elif has_kernel(query, key, value, attn_bias, dropout_p):
        result, logsumexp = ATTENTION_OP(query, key, value, attn_bias, is_causal, scale)
    else:
        result, logsumexp = taken_apart(query, key, value, attn_bias, is_causal, scale)
    none = query.new_empty((), dtype=torch.int64)
    return (
        result if has_batches else result.squeeze(0),
        logsumexp if has_batches else logsumexp.squeeze(0),
        None,
        None,
        query.shape[-2],
        key.shape[-2],
        none,
        none,
        None,
    )


def has_kernel(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    dropout_p: float,
) -> bool:
    """Can the card's kernel do it? It folds keys and channels, of which there must be several."""
    tensors = (query, key, value)
    if dropout_p > 0 or any(tensor.dim() != 4 for tensor in tensors):
        return False
    if query.dtype not in FLOAT_DTYPES or any(tensor.dtype != query.dtype for tensor in tensors):
        return False
    if bias is not None and (bias.dtype not in FLOAT_DTYPES or bias.dim() > 4):
        return False
    if any(tensor.shape[0] != query.shape[0] for tensor in tensors):
        return False
    if key.shape[1] != value.shape[1] or query.shape[1] % key.shape[1]:
        return False
    folded = (key.shape[2], key.shape[3], value.shape[3])
    return all(size > 1 for size in folded) and all(size <= MOST_CHANNELS for size in folded[1:])


def taken_apart(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result and the logarithms of the rows' sums, by other ops."""
    scores = _scores(query, key, bias, is_causal, scale)
    largest = scores.amax(-1, keepdim=True)
    largest = torch.where(largest == -math.inf, torch.zeros_like(largest), largest)
    weights = torch.exp(scores - largest)
    total = weights.sum(-1, keepdim=True)
    total = torch.where(total == 0, torch.ones_like(total), total)
    result = _heads(_rows(weights.to(value.dtype), key) @ value, query) / total
    return result.to(query.dtype), (largest + torch.log(total)).squeeze(-1).to(torch.float32)


@decomposes(aten._scaled_dot_product_fused_attention_overrideable_backward.default)
def attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    grad_input_mask: list[bool],
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    has_batches = query.dim() != 3
    if not has_batches:
        rows = (grad_out, query, key, value, out, logsumexp)
        grad_out, query, key, value, out, logsumexp = (each.unsqueeze(0) for each in rows)
    factor = _factor(query, scale)
    scores = _scores(query, key, attn_bias, is_causal, scale)
    weights = torch.exp(scores - logsumexp.unsqueeze(-1).to(scores.dtype))
    if attn_bias is not None:
        # Beside a lowest number that masks all of a row, the logarithm of its sum is lost.
        total = weights.sum(-1, keepdim=True)
        weights = weights / torch.where(total == 0, torch.ones_like(total), total)
    weights = weights.to(query.dtype)
    grad_weights = _heads(_rows(grad_out, key) @ value.transpose(-1, -2), query)
    along = (grad_out * out).sum(-1, keepdim=True)
    grad_scores = weights * (grad_weights - along)
    grad_query = _heads(_rows(grad_scores, key) @ key, query) * factor
    grad_key = _rows(grad_scores, key).transpose(-1, -2) @ _rows(query, key) * factor
    grad_value = _rows(weights, key).transpose(-1, -2) @ _rows(grad_out, key)
    grad_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        grad_bias = grad_scores.sum_to_size(attn_bias.shape)
    gradients = (grad_query, grad_key, grad_value)
    return *(each if has_batches else each.squeeze(0) for each in gradients), grad_bias


def _factor(query: torch.Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale


def _rows(x: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Query heads that share a key head, one below the other."""
    if x.shape[1] == key.shape[1]:
        return x
    batch, heads, rows, width = x.shape
    shared = heads // key.shape[1]
    return x.reshape(batch, key.shape[1], shared * rows, width)


def _heads(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """The way back."""
    return x.reshape(*query.shape[:-1], x.shape[-1])


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    scaled = query * _factor(query, scale)
    scores = _heads(_rows(scaled, key) @ key.transpose(-1, -2), query)
    if is_causal:
        rows = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1)
        columns = torch.arange(scores.shape[-1], device=scores.device)
        scores = torch.where(columns <= rows, scores, -math.inf)
    # The lowest number of float16 leaves eight bits of a score, and only float32 has them.
    return scores if bias is None else scores.to(torch.float32) + bias.to(torch.float32)

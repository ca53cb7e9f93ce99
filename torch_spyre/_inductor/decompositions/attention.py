"""Decomposes scaled dot-product attention into its kernel, or into matmuls; and its gradients.

Without the kernel it is two matmuls and a softmax. Scores are scaled through the queries. Rows in
which all scores are masked yield zeros, as in PyTorch's safe softmax. Query heads that share keys
and values are rows of one matmul.
"""

import math
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import register_decomposition
from torch_spyre._inductor.decompositions.result_strides import in_order
from torch_spyre.dtypes import FLOAT_DTYPES
from torch_spyre.ops.attention import OVERLOAD as ATTENTION_OP
from torch_spyre.ops.attention import order_of_dims

aten = torch.ops.aten
# With more channels, too few keys fit the scratchpad.
MAX_CHANNELS = 1024


@register_decomposition(aten._scaled_dot_product_fused_attention_overrideable.default)
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
        query, key, value = (x.unsqueeze(0) for x in (query, key, value))
    if key.shape[-2] == 0:
        result = query.new_zeros((*query.shape[:-1], value.shape[-1]))
        logsumexp = query.new_zeros(query.shape[:-1], dtype=torch.float32)
    elif has_kernel(query, key, value, attn_bias, dropout_p):
        result, logsumexp = ATTENTION_OP(query, key, value, attn_bias, is_causal, scale)
    else:
        result, logsumexp = decomposed_attention(query, key, value, attn_bias, is_causal, scale)
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
    """Return whether the card's kernel supports these operands.

    It reduces keys and channels, so there must be more than one of each.
    """
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
    keys, inner, channels = key.shape[2], key.shape[3], value.shape[3]
    return keys > 1 and 1 < inner <= MAX_CHANNELS and 1 < channels <= MAX_CHANNELS


def decomposed_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result and the logsumexp of each row, computed without the kernel."""
    scores = _scores(query, key, bias, is_causal, scale)
    maximum = scores.amax(-1, keepdim=True)
    maximum = torch.where(maximum == -math.inf, torch.zeros_like(maximum), maximum)
    weights = torch.exp(scores - maximum)
    total = weights.sum(-1, keepdim=True)
    total = torch.where(total == 0, torch.ones_like(total), total)
    result = _split_heads(_merge_heads(weights.to(value.dtype), key) @ value, query) / total
    result = result.to(query.dtype)
    order = order_of_dims(query, key, value)
    if order != (0, 1, 2):
        result = in_order(result, (*order, 3))
    return result, (maximum + torch.log(total)).squeeze(-1).to(torch.float32)


@register_decomposition(aten._scaled_dot_product_fused_attention_overrideable_backward.default)
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
        tensors = (grad_out, query, key, value, out, logsumexp)
        grad_out, query, key, value, out, logsumexp = (x.unsqueeze(0) for x in tensors)
    factor = _factor(query, scale)
    scores = _scores(query, key, attn_bias, is_causal, scale)
    weights = torch.exp(scores - logsumexp.unsqueeze(-1).to(scores.dtype))
    if attn_bias is not None:
        # In a row masked by the lowest finite value, logsumexp absorbs the logarithm of the sum.
        total = weights.sum(-1, keepdim=True)
        weights = weights / torch.where(total == 0, torch.ones_like(total), total)
    weights = weights.to(query.dtype)
    grad_weights = _split_heads(_merge_heads(grad_out, key) @ value.transpose(-1, -2), query)
    mean_grad = (grad_out * out).sum(-1, keepdim=True)
    grad_scores = weights * (grad_weights - mean_grad)
    grad_query = _split_heads(_merge_heads(grad_scores, key) @ key, query) * factor
    grad_key = _merge_heads(grad_scores, key).transpose(-1, -2) @ _merge_heads(query, key) * factor
    grad_value = _merge_heads(weights, key).transpose(-1, -2) @ _merge_heads(grad_out, key)
    grad_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        grad_bias = grad_scores.sum_to_size(attn_bias.shape)
    gradients = (grad_query, grad_key, grad_value)
    return *(x if has_batches else x.squeeze(0) for x in gradients), grad_bias


def _factor(query: torch.Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale


def _merge_heads(x: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Return query heads as heads of keys, the rows of those that share one concatenated."""
    if x.shape[1] == key.shape[1]:
        return x
    batch, heads, rows, width = x.shape
    group_size = heads // key.shape[1]
    return x.reshape(batch, key.shape[1], group_size * rows, width)


def _split_heads(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Undo `_merge_heads`."""
    return x.reshape(*query.shape[:-1], x.shape[-1])


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    scaled = query * _factor(query, scale)
    scores = _split_heads(_merge_heads(scaled, key) @ key.transpose(-1, -2), query)
    if is_causal:
        rows = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1)
        columns = torch.arange(scores.shape[-1], device=scores.device)
        scores = torch.where(columns <= rows, scores, -math.inf)
    # The lowest value of float16 leaves eight bits of a score, which only float32 retains.
    return scores if bias is None else scores.to(torch.float32) + bias.to(torch.float32)

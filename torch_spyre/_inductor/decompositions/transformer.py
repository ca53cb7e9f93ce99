"""Decompositions of the ops that PyTorch's transformer modules call in eval mode.

`nn.MultiheadAttention` calls `_native_multi_head_attention` and `nn.TransformerEncoderLayer` calls
`_transformer_encoder_layer_fwd` if no gradient is needed. Where a mask excludes all keys of a row,
the row is NaN, as in PyTorch's kernels; `scaled_dot_product_attention` would yield zeros.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_spyre._inductor.decompositions.attention import attention
from torch_spyre._inductor.decompositions.registry import register_decomposition

aten = torch.ops.aten
# The shapes of a mask: (L, L), (B, L), or that of the scores, (B, heads, L, L).
_MASK_OF_PAIRS, _MASK_OF_KEYS, _MASK_OF_SCORES = range(3)


@register_decomposition(aten._masked_softmax.default)
def masked_softmax(
    x: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None
) -> Tensor:
    torch._check(mask.dtype is torch.bool, lambda: "Mask should be a boolean tensor")
    mask = _expanded_mask(mask, x.shape, mask_type)
    return torch.softmax(x.masked_fill(mask, -math.inf), x.dim() - 1 if dim is None else dim)


@register_decomposition(aten._masked_softmax_backward.default)
def _masked_softmax_backward(
    gradient: Tensor, output: Tensor, mask: Tensor, dim: int | None = None
) -> Tensor:
    torch._check(mask.dtype is torch.bool, lambda: "Mask should be a boolean tensor")
    dim = output.dim() - 1 if dim is None else dim
    products = (gradient * output).masked_fill(mask, 0)
    return (products - output * products.sum(dim, keepdim=True)).masked_fill(mask, 0)


@register_decomposition(aten._transform_bias_rescale_qkv.default)
def _transform_bias_rescale_qkv(
    qkv: Tensor, qkv_bias: Tensor, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (_split_heads(x, num_heads) for x in (qkv + qkv_bias).chunk(3, -1))
    scaled = query * (1 / math.sqrt(query.shape[-1]))
    return scaled.contiguous(), key.contiguous(), value.contiguous()


@register_decomposition(aten._native_multi_head_attention.default)
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the projected result, and the weights of keys if they are needed."""
    _check_operands(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias)
    if query.numel() == 0:
        return torch.empty_like(query), None
    inputs = (query, key, value)
    projections = zip(inputs, qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    if query is key and key is value:
        projected = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        projected = tuple(F.linear(x, weight, bias) for x, weight, bias in projections)
    q, k, v = (_split_heads(x, num_head) for x in projected)
    scores_shape = (*q.shape[:-1], k.shape[-2])
    if mask is not None:
        # A float mask is one of zeros and -inf here.
        mask = _expanded_mask(mask.to(torch.bool), scores_shape, mask_type)
    weights = None
    if need_weights:
        scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        weights = torch.softmax(scores, -1)
        heads = weights @ v
    else:
        heads = _attention(q, k, v, mask)
    result = F.linear(heads.transpose(1, 2).reshape(query.shape), proj_weight, proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.sum(1) / num_head
    return result, weights


@register_decomposition(aten._transformer_encoder_layer_fwd.default)
def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    if src.numel() == 0:
        return src.clone()
    qkv, projection = (qkv_weight, qkv_bias), (proj_weight, proj_bias)

    def attend(x: Tensor) -> Tensor:
        attended: Tensor = multi_head_attention(
            x, x, x, embed_dim, num_heads, *qkv, *projection, mask, False, True, mask_type
        )[0]
        return attended

    def feed_forward(x: Tensor) -> Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
        return F.linear(hidden, ffn_weight_2, ffn_bias_2)

    def norm_1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(norm_1(src))
        return x + feed_forward(norm_2(x))
    x = norm_1(src + attend(src))
    return norm_2(x + feed_forward(x))


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weighted sums of values, without the weights."""
    if mask is None:
        result: Tensor = attention(query, key, value)[0]
        return result
    bias = torch.zeros((), dtype=query.dtype, device=query.device)
    bias = torch.where(mask, -math.inf, bias)
    result = attention(query, key, value, bias)[0]
    return torch.where(mask.all(-1, keepdim=True), math.nan, result)


def _split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Return (B, L, heads * channels) as (B, heads, L, channels)."""
    return x.reshape(*x.shape[:-1], num_heads, -1).transpose(1, 2)


def _expanded_mask(mask: Tensor, shape: Any, mask_type: int | None) -> Tensor:
    """Return a mask that broadcasts to the scores, after PyTorch's checks of its shape."""
    if mask.shape == torch.Size(shape):
        return mask
    torch._check(mask_type is not None, lambda: "Mask Type should be defined")
    torch._check(
        mask_type in (_MASK_OF_PAIRS, _MASK_OF_KEYS, _MASK_OF_SCORES),
        lambda: "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)",
    )
    torch._check(
        mask_type != _MASK_OF_SCORES,
        lambda: "For mask_type == 2 mask shape should match input shape",
    )
    batch, length = shape[0], shape[2] if len(shape) == 4 else None
    if mask_type == _MASK_OF_PAIRS:
        torch._check(
            mask.shape == (length, length), lambda: "For mask_type == 0 mask shape should be (L, L)"
        )
        return mask
    torch._check(
        mask.shape == (batch, length), lambda: "For mask_type == 1 mask shape should be (B, L)"
    )
    return mask[:, None, None, :]


def _check_operands(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
) -> None:
    """Raise the errors of PyTorch's kernel."""
    for name, operand, dims in (
        ("query", query, 3),
        ("key", key, 3),
        ("value", value, 3),
        ("qkv_weight", qkv_weight, 2),
        ("qkv_bias", qkv_bias, 1),
    ):
        message = f"expected {dims}-D `{name}`, got {operand.dim()}-D tensor"
        torch._check(operand.dim() == dims, lambda message=message: message)
    width = query.shape[2]
    torch._check(
        width == embed_dim,
        lambda: f"passed-in embed_dim {embed_dim} didn't match last dim of query {width}",
    )
    torch._check(
        query.shape == key.shape and key.shape == value.shape,
        lambda: "expected `query`/`key`/`value` shapes to match",
    )
    torch._check(
        qkv_weight.shape[0] == 3 * embed_dim,
        lambda: "expected `qkv_weight` first dim to be 3x embed_dim",
    )
    torch._check(
        qkv_weight.shape[1] == embed_dim,
        lambda: "expected `qkv_weight` second dim to be embed_Dim",
    )
    torch._check(
        qkv_bias.shape[0] == 3 * embed_dim,
        lambda: "expected `qkv_bias` first dim and first dim of query to be equal",
    )
    torch._check(embed_dim % num_head == 0, lambda: "`embed_dim` must divide evenly by `num_heads`")

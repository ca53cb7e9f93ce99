"""Attention: ops of several loops, each with an emitter for the whole nest."""

import torch

from torch_spyre._inductor.op_table.record import (
    ACCUMULATED,
    Kind,
    OpRecord,
    dedicated,
    forms,
)

# The result of attention, and the logarithms of the sums of its rows.
ATTENTION, LOGSUMEXP = "attention", "attentionlogsumexp"


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool
) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=causal, scale=scale
    )


def _logsumexp(query: torch.Tensor, key: torch.Tensor, scale: float, causal: bool) -> torch.Tensor:
    scores = query @ key.transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -torch.inf)
    return torch.logsumexp(scores, -1)


RECORDS = (
    OpRecord(
        ATTENTION,
        Kind.MULTI_LOOP,
        arity=None,
        ktir=forms(floats=dedicated(ATTENTION, "matmul", "maximumf", "exp", "addf", "divf")),
        reference=_attention,
        exactness=ACCUMULATED,
        cost="matmul",
        loop_ops=(ATTENTION,),
        constants=("scale", "causal"),
    ),
    OpRecord(
        LOGSUMEXP,
        Kind.MULTI_LOOP,
        arity=None,
        ktir=forms(floats=dedicated(ATTENTION, "matmul", "maximumf", "exp", "addf", "log")),
        reference=_logsumexp,
        exactness=ACCUMULATED,
        cost="matmul",
        loop_ops=(LOGSUMEXP,),
        constants=("scale", "causal"),
    ),
)

"""Matrix multiplications, which the matrix unit computes, and attention, which consists of them."""

import torch

from torch_spyre._inductor.op_table.record import (
    ACCUMULATED,
    Kind,
    KtirForm,
    OpRecord,
    ReductionRule,
    ResultType,
    dedicated,
    forms,
)

# The matmul that the compiler emits, with or without batch dims.
MATMUL = "batchmatmul"
# The result of attention, and the logarithms of the sums of its rows.
ATTENTION, LOGSUMEXP = "attention", "attentionlogsumexp"

_MATMUL_FORM = dedicated("linalg.matmul", "matmul")
_BATCH_MATMUL_FORM = dedicated("linalg.batch_matmul", "matmul")
_SUM = ReductionRule(0.0, is_wide=True, of_empty=0)


def _matmul(name: str, form: KtirForm, loop_ops: tuple[str, ...]) -> OpRecord:
    return OpRecord(
        name,
        Kind.MATMUL,
        arity=2,
        ktir=forms(floats=form, integers=form),
        reference=torch.matmul,
        exactness=ACCUMULATED,
        cost="matmul",
        result=ResultType.OUTPUT,
        loop_ops=loop_ops,
        reduction=_SUM,
        is_public=True,
    )


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
    _matmul(MATMUL, _BATCH_MATMUL_FORM, (MATMUL,)),
    _matmul("matmul", _MATMUL_FORM, ()),
    OpRecord("batchmatmulfp8", Kind.MATMUL, arity=None, cost="matmul", is_public=True),
    OpRecord(
        ATTENTION,
        Kind.ATTENTION,
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
        Kind.ATTENTION,
        arity=None,
        ktir=forms(floats=dedicated(ATTENTION, "matmul", "maximumf", "exp", "addf", "log")),
        reference=_logsumexp,
        exactness=ACCUMULATED,
        cost="matmul",
        loop_ops=(LOGSUMEXP,),
        constants=("scale", "causal"),
    ),
)

"""Matrix multiplications, which the matrix unit computes."""

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

_MATMUL_FORM = dedicated("linalg.matmul", "matmul")
_BATCH_MATMUL_FORM = dedicated("linalg.batch_matmul", "matmul")
_SUM = ReductionRule(0.0, is_wide=True, empty_result=0)


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


RECORDS = (
    _matmul(MATMUL, _BATCH_MATMUL_FORM, (MATMUL,)),
    _matmul("matmul", _MATMUL_FORM, ()),
    OpRecord("batchmatmulfp8", Kind.MATMUL, arity=None, cost="matmul", is_public=True),
)

"""Sorts: ops of several loops on the instruction that sorts rows in the scratchpad."""

import torch

from torch_spyre._inductor.op_table.record import EXACT, Kind, OpRecord, dedicated, forms

# The sorted elements, and their indices.
VALUES, INDICES = "sortvalues", "sortindices"
# Constants of both.
CONSTANTS = ("descending", "runs")

_FORMS = forms(floats=dedicated("spyreop.sort", "sort"), integers=dedicated("spyreop.sort", "sort"))


def _sorted(is_value: bool, x: torch.Tensor, dim: int, descending: bool) -> torch.Tensor:
    values, indices = torch.sort(x, dim=dim, descending=descending, stable=True)
    return values if is_value else indices


RECORDS = (
    OpRecord(
        VALUES,
        Kind.MULTI_LOOP,
        arity=None,
        ktir=_FORMS,
        reference=lambda x, dim, descending: _sorted(True, x, dim, descending),
        exactness=EXACT,
        loop_ops=(VALUES,),
        constants=CONSTANTS,
    ),
    OpRecord(
        INDICES,
        Kind.MULTI_LOOP,
        arity=None,
        ktir=_FORMS,
        reference=lambda x, dim, descending: _sorted(False, x, dim, descending),
        exactness=EXACT,
        loop_ops=(INDICES,),
        constants=CONSTANTS,
    ),
)

"""Gathers and scatters in the scratchpad, which are ops of several loops."""

import torch

from torch_spyre._inductor.op_table.record import (
    ACCUMULATED,
    EXACT,
    Exactness,
    Kind,
    OpRecord,
    dedicated,
    forms,
)

GATHER = "indexedgather"
# The op of a scatter, by how it combines an element with the value that is stored there.
SCATTERS = {
    "set": "indexedset",
    "sum": "indexedadd",
    "prod": "indexedmul",
    "amax": "indexedmax",
    "amin": "indexedmin",
}
# The instructions that combine floats and integers.
COMBINES = {
    SCATTERS["sum"]: ("addf", "addi"),
    SCATTERS["prod"]: ("mulf", "muli"),
    SCATTERS["amax"]: ("maximumf", "maxsi"),
    SCATTERS["amin"]: ("minimumf", "minsi"),
}


def _gather(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table.gather(1, index)


def _scattered(
    x: torch.Tensor, index: torch.Tensor, values: torch.Tensor, reduce: str
) -> torch.Tensor:
    return x.scatter_reduce(1, index, values, reduce)


def _moves(name: str, arity: int) -> OpRecord:
    return OpRecord(
        name,
        Kind.MULTI_LOOP,
        arity=arity,
        ktir=forms(floats=dedicated("indexed"), integers=dedicated("indexed")),
        reference=_gather if name == GATHER else lambda x, i, v: x.scatter(1, i, v),
        exactness=EXACT,
        loop_ops=(name,),
    )


def _combines(reduce: str, exactness: Exactness, *, can_overflow: bool) -> OpRecord:
    name = SCATTERS[reduce]
    floats, integers = COMBINES[name]
    return OpRecord(
        name,
        Kind.MULTI_LOOP,
        arity=3,
        ktir=forms(floats=dedicated("indexed", floats), integers=dedicated("indexed", integers)),
        reference=lambda x, index, values: _scattered(x, index, values, reduce),
        exactness=exactness,
        loop_ops=(name,),
        can_overflow=can_overflow,
    )


RECORDS = (
    _moves(GATHER, 2),
    _moves(SCATTERS["set"], 3),
    _combines("sum", ACCUMULATED, can_overflow=True),
    _combines("prod", ACCUMULATED, can_overflow=True),
    _combines("amax", EXACT, can_overflow=False),
    _combines("amin", EXACT, can_overflow=False),
)

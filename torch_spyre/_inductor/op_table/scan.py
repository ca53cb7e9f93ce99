"""Scans: cumulative reductions, which are ops of several loops."""

import torch

from torch_spyre._inductor.op_table.record import (
    ACCUMULATED,
    EXACT,
    Kind,
    OpRecord,
    dedicated,
    forms,
)

# The op of a scan, by the name of the operation that combines two elements.
SCANS = {
    "add": "scanadd",
    "mul": "scanmul",
    "max": "scanmax",
    "min": "scanmin",
    "logaddexp": "scanlogaddexp",
}


def _extreme_scan(is_max: bool, x: torch.Tensor, dim: int) -> torch.Tensor:
    return (torch.cummax if is_max else torch.cummin)(x, dim).values


RECORDS = (
    OpRecord(
        SCANS["add"],
        Kind.MULTI_LOOP,
        arity=1,
        ktir=forms(floats=dedicated("scan", "addf"), integers=dedicated("scan", "addi")),
        reference=torch.cumsum,
        exactness=ACCUMULATED,
        loop_ops=(SCANS["add"],),
        can_overflow=True,
    ),
    OpRecord(
        SCANS["mul"],
        Kind.MULTI_LOOP,
        arity=1,
        ktir=forms(floats=dedicated("scan", "mulf"), integers=dedicated("scan", "muli")),
        reference=torch.cumprod,
        exactness=ACCUMULATED,
        loop_ops=(SCANS["mul"],),
        can_overflow=True,
    ),
    OpRecord(
        SCANS["max"],
        Kind.MULTI_LOOP,
        arity=1,
        ktir=forms(floats=dedicated("scan", "maximumf"), integers=dedicated("scan", "maxsi")),
        reference=lambda x, dim: _extreme_scan(True, x, dim),
        exactness=EXACT,
        loop_ops=(SCANS["max"],),
    ),
    OpRecord(
        SCANS["min"],
        Kind.MULTI_LOOP,
        arity=1,
        ktir=forms(floats=dedicated("scan", "minimumf"), integers=dedicated("scan", "minsi")),
        reference=lambda x, dim: _extreme_scan(False, x, dim),
        exactness=EXACT,
        loop_ops=(SCANS["min"],),
    ),
    OpRecord(
        SCANS["logaddexp"],
        Kind.MULTI_LOOP,
        arity=1,
        ktir=forms(floats=dedicated("scan", "maximumf", "exp", "log1p", "addf")),
        reference=torch.logcumsumexp,
        exactness=ACCUMULATED,
        cost="transcendental",
        loop_ops=(SCANS["logaddexp"],),
    ),
)

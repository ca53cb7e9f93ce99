"""Reductions, and `argmax` and `argmin`.

The KTIR form of a reduction combines two accumulators.
"""

import math

import torch

from torch_spyre._inductor.op_table.record import (
    ACCUMULATED,
    EXACT,
    Kind,
    KtirForm,
    OpRecord,
    ReductionRule,
    ResultType,
    dedicated,
    forms,
    operation,
)


def _mean(x: torch.Tensor, dim: int, scaling_factor: float) -> torch.Tensor:
    return x.sum(dim) * scaling_factor


def _position_form(*comparisons: str) -> KtirForm:
    """Return the form of a loop that carries the extreme and its index."""
    return dedicated("linalg.generic", *comparisons, "cmpi_slt", "andi", "ori", "select")


_FLOAT_TIES = ("cmpf_uno", "cmpf_ord", "cmpf_oeq")

RECORDS = (
    OpRecord(
        "sum",
        Kind.REDUCTION,
        arity=1,
        ktir=forms(floats=operation("arith.addf"), integers=operation("arith.addi")),
        reference=torch.sum,
        exactness=ACCUMULATED,
        loop_ops=("sum",),
        reduction=ReductionRule(0.0, is_wide=True, empty_result=0),
        is_public=True,
    ),
    OpRecord(
        "mean",
        Kind.REDUCTION,
        arity=1,
        ktir=forms(floats=operation("arith.addf")),
        reference=_mean,
        exactness=ACCUMULATED,
        loop_ops=("mean",),
        constants=("scaling_factor",),
        reduction=ReductionRule(0.0, is_wide=True, scale="scaling_factor", empty_result=math.nan),
        is_public=True,
    ),
    OpRecord(
        "prod",
        Kind.REDUCTION,
        arity=1,
        ktir=forms(floats=operation("arith.mulf"), integers=operation("arith.muli")),
        reference=torch.prod,
        exactness=ACCUMULATED,
        loop_ops=("prod",),
        reduction=ReductionRule(1.0, is_wide=True, empty_result=1),
    ),
    OpRecord(
        "max",
        Kind.REDUCTION,
        arity=1,
        ktir=forms(floats=operation("arith.maximumf"), integers=operation("arith.maxsi")),
        reference=torch.amax,
        exactness=EXACT,
        # Bools are 0 and 1 in memory.
        loop_ops=("max", "any"),
        reduction=ReductionRule(-math.inf),
        is_public=True,
    ),
    OpRecord(
        "min",
        Kind.REDUCTION,
        arity=1,
        ktir=forms(floats=operation("arith.minimumf"), integers=operation("arith.minsi")),
        reference=torch.amin,
        exactness=EXACT,
        loop_ops=("min",),
        reduction=ReductionRule(math.inf),
        is_public=True,
    ),
    OpRecord(
        "argmax",
        Kind.ARG_REDUCTION,
        arity=1,
        ktir=forms(
            floats=_position_form("cmpf_ogt", *_FLOAT_TIES),
            integers=_position_form("cmpi_sgt", "cmpi_eq"),
        ),
        reference=torch.argmax,
        exactness=EXACT,
        result=ResultType.OUTPUT,
        loop_ops=("argmax",),
        reduction=ReductionRule(-math.inf, is_combinable=False),
    ),
    OpRecord(
        "argmin",
        Kind.ARG_REDUCTION,
        arity=1,
        ktir=forms(
            floats=_position_form("cmpf_olt", *_FLOAT_TIES),
            integers=_position_form("cmpi_slt", "cmpi_eq"),
        ),
        reference=torch.argmin,
        exactness=EXACT,
        result=ResultType.OUTPUT,
        loop_ops=("argmin",),
        reduction=ReductionRule(math.inf, is_combinable=False),
    ),
)

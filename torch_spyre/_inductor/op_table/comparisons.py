"""Comparisons, logical ops, and the selection between two values."""

from collections.abc import Callable

import torch

from torch_spyre._inductor.op_table.record import (
    AT_ENDS,
    EXACT,
    Extremes,
    Kind,
    KtirForm,
    OpRecord,
    ResultType,
    by_rule,
    comparison,
    compound,
    forms,
    operation,
)

WHERE = "where3"


def _comparison(
    name: str,
    loop_op: str,
    reference: Callable[..., torch.Tensor],
    predicates: tuple[str, str],
    extremes: Extremes,
    bool_variant: str | None = None,
) -> OpRecord:
    """Return the record of a comparison, whose predicates are for floats and for integers."""
    float_predicate, integer_predicate = predicates
    return OpRecord(
        name,
        Kind.COMPARISON,
        arity=2,
        ktir=forms(
            floats=comparison("arith.cmpf", float_predicate),
            integers=comparison("arith.cmpi", integer_predicate),
        ),
        reference=reference,
        exactness=EXACT,
        result=ResultType.BOOL,
        loop_ops=(loop_op,),
        extremes=extremes,
        bool_variant=bool_variant,
        is_public=True,
    )


def _classification(name: str, form: KtirForm, reference: Callable[..., torch.Tensor]) -> OpRecord:
    """Return the record of a predicate of one float, such as `isnan`."""
    return OpRecord(
        name,
        Kind.COMPARISON,
        arity=1,
        ktir=forms(floats=form),
        reference=reference,
        exactness=EXACT,
        result=ResultType.BOOL,
        loop_ops=(name,),
        extremes=by_rule(name),
    )


def _logical(
    name: str, loop_op: str, arity: int, form: KtirForm, reference: Callable[..., torch.Tensor]
) -> OpRecord:
    """Return the record of an op whose operands are converted to bool first."""
    return OpRecord(
        name,
        Kind.LOGICAL,
        arity=arity,
        ktir=forms(bools=form),
        reference=reference,
        exactness=EXACT,
        result=ResultType.BOOL,
        loop_ops=(loop_op,),
        extremes=AT_ENDS,
    )


_SELECT = compound("select", "select")

RECORDS = (
    _comparison("equal", "eq", torch.eq, ("oeq", "eq"), by_rule("equality")),
    _comparison("notequal", "ne", torch.ne, ("une", "ne"), by_rule("equality"), "logicalxor"),
    _comparison("lesserthan", "lt", torch.lt, ("olt", "slt"), by_rule("order")),
    _comparison("lesserequal", "le", torch.le, ("ole", "sle"), by_rule("order")),
    _comparison("greaterthan", "gt", torch.gt, ("ogt", "sgt"), by_rule("order")),
    _comparison("greaterequal", "ge", torch.ge, ("oge", "sge"), by_rule("order")),
    _classification("isnan", compound("isnan", "cmpf_uno"), torch.isnan),
    _classification("isinf", compound("isinf", "absf", "cmpf_oeq"), torch.isinf),
    _logical("logicaland", "logical_and", 2, operation("arith.andi"), torch.logical_and),
    _logical("logicalor", "logical_or", 2, operation("arith.ori"), torch.logical_or),
    _logical("logicalxor", "logical_xor", 2, operation("arith.xori"), torch.logical_xor),
    _logical("logicalnot", "logical_not", 1, compound("complement", "xori"), torch.logical_not),
    OpRecord(
        WHERE,
        Kind.SELECTION,
        arity=3,
        ktir=forms(floats=_SELECT, integers=_SELECT, bools=_SELECT),
        reference=torch.where,
        extremes=by_rule("selection"),
        exactness=EXACT,
        loop_ops=("where",),
        is_public=True,
    ),
)

"""Copies, conversions between dtypes, and the tensor of an index expression."""

from collections.abc import Callable, Sequence

import torch

from torch_spyre._inductor.op_table.record import (
    EXACT,
    Kind,
    KtirForm,
    OpRecord,
    ResultType,
    dedicated,
    forms,
)
from torch_spyre.dtypes import HALF_DTYPES, INT32_STORED_DTYPES

IDENTITY = "identity"
RESTICKIFY = "ReStickifyOpHBM"
CONVERT = "convert"
INDEX = "index"


def _conversion_form(*instructions: str) -> KtirForm:
    return dedicated("convert", *instructions)


def _index(sizes: Sequence[int], expression: Callable[..., torch.Tensor]) -> torch.Tensor:
    """Evaluate an expression of the coordinates at each point of an iteration space."""
    coordinates = torch.meshgrid(*map(torch.arange, sizes), indexing="ij")
    return expression(*coordinates)


# The instructions that convert from each operand class to the others.
_FROM_FLOATS = _conversion_form("extf", "truncf", "fptosi", "cmpf_une")
_FROM_INTEGERS = _conversion_form("sitofp", "extsi", "trunci", "cmpi_ne")
_FROM_BOOLS = _conversion_form("uitofp", "extui")
_FROM_ANY = forms(floats=_FROM_FLOATS, integers=_FROM_INTEGERS, bools=_FROM_BOOLS)

# References only copy; converting the copy to the dtype of the output rounds or truncates it.
RECORDS = (
    # Both copies accept an output of another dtype, so that a kernel may convert on the way.
    OpRecord(
        IDENTITY,
        Kind.DATA_MOVEMENT,
        arity=1,
        ktir=_FROM_ANY,
        reference=torch.clone,
        result=ResultType.OUTPUT,
        loop_ops=("identity",),
        is_public=True,
    ),
    OpRecord(
        RESTICKIFY,
        Kind.DATA_MOVEMENT,
        arity=1,
        ktir=_FROM_ANY,
        reference=torch.clone,
        result=ResultType.OUTPUT,
        is_public=True,
    ),
    OpRecord(
        "dl16tofp32",
        Kind.CONVERSION,
        arity=1,
        ktir=forms(floats=_conversion_form("extf")),
        reference=torch.clone,
        exactness=EXACT,
        result=ResultType.OUTPUT,
        is_public=True,
    ),
    OpRecord(
        "fp32todl16",
        Kind.CONVERSION,
        arity=1,
        ktir=forms(floats=_conversion_form("truncf")),
        reference=torch.clone,
        result=ResultType.OUTPUT,
        is_public=True,
    ),
    OpRecord(
        CONVERT,
        Kind.CONVERSION,
        arity=1,
        ktir=_FROM_ANY,
        reference=torch.clone,
        result=ResultType.OUTPUT,
    ),
    # Conversions of float8 that only files of other producers contain.
    OpRecord("fp8todl16", Kind.CONVERSION, arity=1, result=ResultType.OUTPUT, is_public=True),
    OpRecord("qfp8ch", Kind.CONVERSION, arity=None, result=ResultType.OUTPUT, is_public=True),
    # `op_info["expression"]` at each point of the iteration space.
    OpRecord(
        INDEX,
        Kind.COORDINATE,
        arity=0,
        ktir=forms(integers=dedicated("linalg.generic", "addi", "muli", "floordivsi")),
        reference=_index,
        exactness=EXACT,
        cost="divide",
        result=ResultType.OUTPUT,
        loop_ops=("index_expr",),
    ),
)


def conversion_op(source: torch.dtype, target: torch.dtype) -> str:
    """Return the op that converts elements from one dtype to another.

    A conversion to bool is `notequal`, whose second operand is zero.
    """
    if target is torch.bool:
        return "notequal"
    if source in HALF_DTYPES and target is torch.float32:
        return "dl16tofp32"
    if source is torch.float32 and target in HALF_DTYPES:
        return "fp32todl16"
    has_same_format = (source in (*HALF_DTYPES, torch.bool) and target in HALF_DTYPES) or (
        source in INT32_STORED_DTYPES and target in INT32_STORED_DTYPES
    )
    return IDENTITY if has_same_format else CONVERT

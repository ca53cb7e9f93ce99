"""Transcendental functions and activations of single elements, all on floats."""

import math
from collections.abc import Callable

import torch

from torch_spyre._inductor.op_table.record import (
    AT_ENDS,
    FUNCTION,
    Exactness,
    Extremes,
    Kind,
    KtirForm,
    OpRecord,
    by_rule,
    compound,
    forms,
    intrinsic,
    operation,
)

_POWER = Exactness("within 1.2 ulp", 1.2, 1.2)
_POSITIVE = Extremes(domain=(0, math.inf))
_ABOVE_MINUS_ONE = Extremes(domain=(-1, math.inf))


def _function(
    name: str,
    form: KtirForm,
    reference: Callable[..., torch.Tensor],
    *,
    arity: int = 1,
    exactness: Exactness = FUNCTION,
    extremes: Extremes = AT_ENDS,
    loop_ops: tuple[str, ...] | None = None,
    is_custom_loop_op: bool = False,
    constants: tuple[str, ...] = (),
    is_public: bool = False,
) -> OpRecord:
    """Return the record of a function that is one transcendental instruction."""
    return OpRecord(
        name,
        Kind.POINTWISE,
        arity=arity,
        ktir=forms(floats=form),
        reference=reference,
        exactness=exactness,
        extremes=extremes,
        cost="transcendental",
        loop_ops=(name,) if loop_ops is None else loop_ops,
        is_custom_loop_op=is_custom_loop_op,
        constants=constants,
        is_public=is_public,
    )


RECORDS = (
    _function("exp", operation("math.exp"), torch.exp, is_public=True),
    _function("exp2", operation("math.exp2"), torch.exp2),
    _function("expm1", operation("math.expm1"), torch.expm1),
    _function("log", operation("math.log"), torch.log, extremes=_POSITIVE, is_public=True),
    _function("log2", operation("math.log2"), torch.log2, extremes=_POSITIVE),
    _function("log10", operation("math.log10"), torch.log10, extremes=_POSITIVE),
    _function("log1p", operation("math.log1p"), torch.log1p, extremes=_ABOVE_MINUS_ONE),
    _function("sin", operation("math.sin"), torch.sin, extremes=by_rule("periodic")),
    _function("cos", operation("math.cos"), torch.cos, extremes=by_rule("periodic")),
    _function("tanh", operation("math.tanh"), torch.tanh, is_public=True),
    _function("erf", operation("math.erf"), torch.erf),
    _function(
        "pow",
        operation("math.powf"),
        torch.pow,
        arity=2,
        exactness=_POWER,
        extremes=by_rule("power"),
    ),
    _function("sigmoid", intrinsic("spyreop.sigmoid"), torch.sigmoid, is_public=True),
    _function(
        "silu",
        intrinsic("spyreop.silu"),
        torch.nn.functional.silu,
        extremes=Extremes(turning_points=(-1.278464542761074,)),
        is_custom_loop_op=True,
        is_public=True,
    ),
    _function(
        "gelufwd",
        intrinsic("spyreop.gelu", max_bits=16),
        torch.nn.functional.gelu,
        extremes=Extremes(turning_points=(-0.7517915246935645,)),
        loop_ops=("gelu",),
        is_custom_loop_op=True,
        is_public=True,
    ),
    # Only SuperDSC files contain it: PyTorch decomposes it before loops are traced.
    _function(
        "softplus",
        compound("softplus", "softplus"),
        torch.nn.functional.softplus,
        loop_ops=(),
        constants=("softplusBeta", "softplusThresh"),
        is_public=True,
    ),
    OpRecord(
        "rsqrt",
        Kind.POINTWISE,
        arity=1,
        ktir=forms(floats=operation("math.rsqrt")),
        reference=torch.rsqrt,
        extremes=Extremes(domain=(0, math.inf), has_pole=True),
        exactness=FUNCTION,
        cost="divide",
        loop_ops=("rsqrt",),
        is_public=True,
    ),
)

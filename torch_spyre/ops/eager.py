"""Eager ops: each is a graph of one op, compiled when it is first called with such arguments.

A kernel looks at the metadata of its arguments and finds the plan that was made for it. The
compiler is imported when the first plan is made.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre import _C, knobs
from torch_spyre.errors import CompilerFailure, UnsupportedError
from torch_spyre.logging_config import get_logger
from torch_spyre.ops import (
    attention,
    batch_norm,
    comparing,
    duplicates,
    host_indices,
    loss_scaling,
    optimizers,
    sampling,
    selecting,
    varying_numbers,
)
from torch_spyre.ops.native import COMPOSED, eager_overloads
from torch_spyre.ops.own import BODIES
from torch_spyre.ops.plans import Plan, Plans, keep

logger = get_logger(__name__)

# Ops that do not only return what they compute: composed of ops that do.
_COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "equal": comparing.equal,
    "masked_select": selecting.masked_select,
    "multinomial": sampling.multinomial,
    "nonzero": selecting.nonzero,
    "repeat_interleave.Tensor": selecting.repeat_interleave,
    "_unique2": duplicates.unique,
    "unique_consecutive": duplicates.unique_consecutive,
    "_assert_async": selecting.assert_async,
    "_assert_async.msg": selecting.assert_async,
    "_amp_foreach_non_finite_check_and_unscale_": loss_scaling.unscale,
    "_amp_update_scale_": loss_scaling.update_scale,
    "_batch_norm_no_update": batch_norm.no_update,
    "_batch_norm_with_update": batch_norm.with_update,
    "_native_batch_norm_legit": batch_norm.native_batch_norm,
    "batch_norm_backward": batch_norm.backward,
    "native_batch_norm": batch_norm.native_batch_norm,
}
# torch.library unregisters what is not kept.
_libraries: list[torch.library.Library] = []
_composed_ops = torch.library.Library("aten", "IMPL")
_attention_kernel = torch.library.Library("spyre", "IMPL")


def is_composed(overload: torch._ops.OpOverload) -> bool:
    """Is the op made of others of the card where it is called, rather than by the compiler?"""
    return overload.name().removeprefix("aten::") in _COMPOSITIONS


def register() -> None:
    use_kernels(knobs.execution.eager == "native")
    # The CPU has no such ops: they are composed of others in any case.
    for name in COMPOSED:
        overload = getattr(torch.ops.aten, name).default
        _composed_ops.impl(overload, _composed(overload), "PrivateUse1")
    _attention_kernel.impl(attention.OVERLOAD, _attention(), "PrivateUse1")


def use_kernels(native: bool) -> None:
    """Registers a kernel for every overload that the compiler can do, or takes them back.

    Without them each op runs on the CPU: to tell the effect of a kernel from another.
    """
    if native == bool(_libraries):
        return
    _C._set_conversion_kernel(_conversions() if native else None)
    if native:
        _libraries.append(_library())
    else:
        _libraries.pop()._destroy()


def _library() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # PyTorch composes some of these in ways that do not suit the CPU; the extension has them
        # fall back whole, until they are overridden here.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for overload in eager_overloads():
            library.impl(overload, _kernel(overload, _on_cpu), "PrivateUse1", allow_override=True)
        compositions = _COMPOSITIONS | optimizers.fused_kernels(_own_kernel)
        for name, composition in compositions.items():
            library.impl(name, _untraced(composition), "PrivateUse1", allow_override=True)
        for name in ("complex", "polar", "view_as_complex"):
            # Before autograd: what they make is traced as the real tensors it is made of.
            for key in ("PrivateUse1", "AutogradPrivateUse1"):
                library.impl(name, _complex_pairs(name), key, allow_override=True)
    return library


def _complex_pairs(name: str) -> Callable[..., Any]:
    def kernel(*args: Any) -> Any:
        # PyTorch's class for these is not quick to import, and few need it.
        from torch_spyre.ops import complex_pairs

        return complex_pairs.MADE_BY[name](*args)

    return _untraced(kernel)


def _kernel(
    overload: torch._ops.OpOverload, otherwise: Callable[[torch._ops.OpOverload], Plan]
) -> Callable[..., Any]:
    """`otherwise` makes the plan for calls that the compiler cannot do."""
    plans = Plans()
    varying = varying_numbers.Varying(overload, _plan_or_none)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        key = _C.arguments_key(args, kwargs)
        plan = plans.get(key)
        if plan is None:
            general = varying.plan(args, kwargs)
            if general is not None:
                return general()
            plan = _planned(overload, args, kwargs, otherwise)
            if key is not None:
                keep(plans, key, plan)
        return plan(args, kwargs)

    return _untraced(kernel)


def _own_kernel(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """What cannot be one plan is done op by op."""

    def op_by_op(_: torch._ops.OpOverload) -> Plan:
        return lambda args, kwargs: BODIES[overload](*args, **kwargs)

    return _kernel(overload, op_by_op)


def _conversions() -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """Copies to another dtype, for the extension: it knows what else to do where there is none."""
    plans = Plans()
    overload = torch.ops.aten.copy_.default

    def convert(source: torch.Tensor, target: torch.Tensor) -> bool:
        from torch_spyre._inductor.eager_op import plan_eager_op

        key = _C.arguments_key((target, source))
        if key is None:
            return False
        if key not in plans:
            try:
                keep(plans, key, plan_eager_op(overload, (target, source), {}))
            except (CompilerFailure, UnsupportedError) as error:
                logger.info("a conversion falls back: %s", error)
                keep(plans, key, None)
        plan = plans[key]
        if plan is None:
            return False
        plan((target, source), {})
        return True

    return _untraced(convert)


def _composed(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """An op whose decomposition runs op by op."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        from torch_spyre._inductor import decompositions

        return decompositions.table()[overload](*args, **kwargs)

    return _untraced(kernel)


def _attention() -> Callable[..., Any]:
    """One kernel; without kernels, and where that one cannot do it, the ops it is made of."""
    planned = _kernel(attention.OVERLOAD, lambda _: _attention_of_other_ops)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if _libraries:
            return planned(*args, **kwargs)
        return _attention_of_other_ops(args, kwargs)

    return _untraced(kernel)


def _attention_of_other_ops(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    from torch_spyre._inductor.decompositions.attention import taken_apart

    return taken_apart(*args, **kwargs)


def _untraced(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo looks at every Python frame that runs under it, also at those below a dispatcher."""
    dynamo = torch._C._dynamo.eval_frame
    skip = dynamo._FrameAction.SKIP
    dynamo.set_code_exec_strategy(kernel.__code__, dynamo._FrameExecStrategy(skip, skip))
    return kernel


def _planned(
    overload: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    otherwise: Callable[[torch._ops.OpOverload], Plan],
) -> Plan:
    return (
        host_indices.plan(overload, args)
        or _plan_like_a_fake(overload, args)
        or _plan_or_none(overload, args, kwargs)
        or selecting.plan_by_places(overload, args)
        or otherwise(overload)
    )


def _plan_like_a_fake(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """Zeros like a fake tensor: PyTorch tries ops on them whose results it cannot describe."""
    if overload is not torch.ops.aten.zeros_like.default:
        return None
    if args[0].untyped_storage().device.type != "meta":
        return None
    return lambda args, kwargs: torch.empty_like(*args, **kwargs).zero_()


def _plan_or_none(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Plan | None:
    """None for what the compiler cannot do."""
    from torch_spyre._inductor.eager_op import plan_eager_op

    try:
        return plan_eager_op(overload, args, kwargs)
    except CompilerFailure as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        logger.exception("%s falls back", overload)
    except UnsupportedError as error:
        logger.info("%s falls back: %s", overload, error)
    return None


def _on_cpu(overload: torch._ops.OpOverload) -> Plan:
    name, variant = overload._schema.name, overload._schema.overload_name

    schema = overload._schema
    takes_tensor = [str(argument.type) == "Tensor" for argument in schema.arguments]

    def plan(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given = zip(args, takes_tensor, strict=False)
        tensors = [_as_tensor(value, args) if wanted else value for value, wanted in given]
        return _C._run_on_cpu(name, variant, tuple(tensors), kwargs)

    return plan


def _as_tensor(value: Any, args: Sequence[Any]) -> Any:
    """Numbers that the dispatcher made of tensors, as tensors that decide no type."""
    if isinstance(value, torch.Tensor) or value is None:
        return value
    other = next(each for each in args if isinstance(each, torch.Tensor))
    # Converted afterwards: a tensor is not made of a number that its type cannot hold.
    return torch.tensor(value).to(torch.result_type(other, value))

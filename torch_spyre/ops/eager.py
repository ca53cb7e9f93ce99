"""Kernels of eager ops: each call is compiled as a graph of one op.

A kernel looks up the plan for the metadata of its arguments, and makes one if there is none. The
compiler is imported when the first plan is made. The registry lists which op has which kernel.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import torch

from torch_spyre import _C, knobs
from torch_spyre.device.diagnostics import text_with_notes
from torch_spyre.dtypes import RAW_DTYPES
from torch_spyre.errors import CompilerFailure, UnsupportedError
from torch_spyre.logging_config import get_logger
from torch_spyre.ops import (
    attention,
    expanded_targets,
    host_indices,
    nonzero,
    optimizers,
    random,
    random_values,
    scalar_arguments,
)
from torch_spyre.ops.fallback_reasons import CPU_KERNELS
from torch_spyre.ops.native import eager_overloads
from torch_spyre.ops.planning import may_have_kernel
from torch_spyre.ops.plans import Plan, Plans, add_plan
from torch_spyre.ops.registry import DEVICE_KEY, ENTRIES, Kind, OpEntry, find_entry
from torch_spyre.ops.size_families import EagerFamilies
from torch_spyre.ops.spyre_ops import BODIES
from torch_spyre.pytorch_internals.frame_skipping import untraced
from torch_spyre.user_frames import current_line, warn_at

logger = get_logger("torch_spyre.execution")

# torch.library unregisters the kernels of a library when the library is garbage-collected.
_native_kernels: list[torch.library.Library] = []
_op_by_op_kernels = torch.library.Library("aten", "IMPL")
_spyre_kernels = torch.library.Library("spyre", "IMPL")


def is_composed(overload: torch._ops.OpOverload) -> bool:
    """Return whether the op calls other ops of the card from Python, without the compiler."""
    schema = overload._schema
    entry = find_entry(schema.name.removeprefix("aten::"), schema.overload_name)
    return entry is not None and entry.kind is Kind.KERNEL and entry.is_overload


def register() -> None:
    """Register the kernels of the card, and of ops that have no CPU kernel to fall back to."""
    _use_cpu_kernels(set())
    use_kernels(knobs.execution.eager == "native")
    for entry in ENTRIES.values():
        if entry.runs_op_by_op:
            overload = getattr(torch.ops.aten, entry.name).default
            _op_by_op_kernels.impl(overload, _op_by_op(overload), "PrivateUse1")
    for entry, kernel in _functions(
        [entry for entry in ENTRIES.values() if entry.is_always_registered]
    ):
        _op_by_op_kernels.impl(_name(entry), untraced(kernel), DEVICE_KEY)
    _spyre_kernels.impl(attention.OVERLOAD, _attention(), "PrivateUse1")
    for overload in (random_values.RANDOM_WORDS, random_values.UPPER_HALF):
        _spyre_kernels.impl(overload, _kernel(overload, _not_planned), "PrivateUse1")


def use_kernels(native: bool) -> None:
    """Register the native kernels of all ops, or make each op run on the CPU instead.

    The latter isolates the effect of native kernels when a result is wrong.
    """
    if native == bool(_native_kernels):
        return
    _C._set_conversion_kernel(_conversions() if native else None)
    if not native:
        _native_kernels.pop()._destroy()
        _use_cpu_kernels(set())
        return
    overloads = list(eager_overloads())
    entries = [
        entry
        for entry in ENTRIES.values()
        if entry.kind is Kind.KERNEL
        and not entry.is_always_registered
        and not (_is_complex_pair(entry) and _C._stores_unsupported_dtypes())
    ]
    names = {overload.name() for overload in overloads}
    _use_cpu_kernels(names | {entry.dispatcher_name for entry in entries})
    _native_kernels.append(_library(overloads, entries))


def renew_kernels() -> None:
    """Register all kernels again: a knob has changed which they are."""
    if _native_kernels:
        use_kernels(False)
        use_kernels(True)
    else:
        _use_cpu_kernels(set())
    for entry in filter(_is_complex_pair, ENTRIES.values()):
        op, _, variant = entry.name.partition(".")
        overload = getattr(getattr(torch.ops.aten, op), variant)
        for key in entry.keys:
            # Tracing caches the kernel that it called last.
            overload._uncache_dispatch(getattr(torch._C.DispatchKey, key))


def _is_complex_pair(entry: OpEntry) -> bool:
    return entry.function.startswith("complex_as_real:")


def _use_cpu_kernels(native: set[str]) -> None:
    """Make C++ register its CPU kernels, except for overloads with a native kernel.

    If float64 and complex tensors are stored, PyTorch can compose the ops that compute with these.
    """
    stores = _C._stores_unsupported_dtypes()
    _C._register_cpu_kernels(
        [
            (kernel.dispatcher_name, kernel.form)
            for kernel in CPU_KERNELS.values()
            if kernel.dispatcher_name not in native
            and not (stores and kernel.form == "whole with gradients")
        ]
    )


def _library(
    overloads: Sequence[torch._ops.OpOverload], entries: Sequence[OpEntry]
) -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")
    for overload in overloads:
        library.impl(overload, _kernel(overload, _on_cpu), "PrivateUse1")
    for entry, kernel in _functions(entries):
        for key in entry.keys:
            library.impl(_name(entry), untraced(kernel), key)
    return library


def _name(entry: OpEntry) -> str:
    return entry.dispatcher_name.removeprefix("aten::")


def _functions(entries: Sequence[OpEntry]) -> Iterator[tuple[OpEntry, Callable[..., Any]]]:
    """Yield the entries of kernels in Python with their functions."""
    fused = optimizers.fused_kernels(_spyre_op_kernel)
    random_kernels = random.RandomKernels(_spyre_op_kernel).by_overload()
    for entry in entries:
        module, function = entry.function.split(":")
        name = entry.name.removesuffix(".default")
        if name in fused:
            yield entry, _fused_step(entry, fused[name])
        elif name in random_kernels:
            yield entry, random_kernels[name]
        elif _is_complex_pair(entry):
            yield entry, _complex(function)
        else:
            yield entry, getattr(import_module(f"torch_spyre.ops.{module}"), function)


def _fused_step(entry: OpEntry, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of a fused optimizer, with parameters that the card only stores on the CPU.

    The card's kernels compute in float32.
    """
    name, _, overload = entry.dispatcher_name.partition(".")

    def step(params: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        if any(param.dtype in RAW_DTYPES for param in params):
            return _C._run_on_cpu(name, overload, (params, *args), kwargs)
        return kernel(params, *args, **kwargs)

    return step


def _complex(name: str) -> Callable[..., Any]:
    def kernel(*args: Any) -> Any:
        # PyTorch's class of complex tensors is slow to import, and few programs need it.
        from torch_spyre.ops import complex_as_real

        return complex_as_real.CONSTRUCTORS[name](*args)

    return kernel


def _kernel(
    overload: torch._ops.OpOverload, make_fallback_plan: Callable[[torch._ops.OpOverload], Plan]
) -> Callable[..., Any]:
    """Return a kernel that calls plans.

    `make_fallback_plan` plans the calls that the compiler cannot.
    """
    plans = Plans()
    generic = scalar_arguments.GenericPlans(overload, _plan_or_none)
    families = EagerFamilies(overload)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        key = _C.arguments_key(args, kwargs)
        plan = plans.get(key)
        if plan is None:
            call = generic.find_call(args, kwargs)
            if call is not None:
                return call()
            plan = _make_plan(overload, args, kwargs, families, make_fallback_plan)
            if key is not None:
                add_plan(plans, key, plan)
        return plan(args, kwargs)

    return untraced(kernel)


def _spyre_op_kernel(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """Return the kernel of an op of the `spyre` namespace.

    It runs the op's body op by op if the compiler has no plan for the call.
    """

    def op_by_op(_: torch._ops.OpOverload) -> Plan:
        return lambda args, kwargs: BODIES[overload](*args, **kwargs)

    return _kernel(overload, op_by_op)


def _conversions() -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """Return the kernel of copies to another dtype.

    The extension calls it, and converts on the host where it returns False.
    """
    plans = Plans()
    overload = torch.ops.aten.copy_.default

    def convert(source: torch.Tensor, target: torch.Tensor) -> bool:
        from torch_spyre._inductor.eager_op import plan_eager_op

        key = _C.arguments_key((target, source))
        if key is None:
            return False
        if key not in plans:
            try:
                add_plan(plans, key, plan_eager_op(overload, (target, source), {}))
            except (CompilerFailure, UnsupportedError) as error:
                logger.info("a conversion of dtypes falls back: %s", error)
                add_plan(plans, key, None)
        plan = plans[key]
        if plan is None:
            return False
        plan((target, source), {})
        return True

    return untraced(convert)


def _op_by_op(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """Return a kernel that runs the op's decomposition op by op."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        from torch_spyre._inductor import decompositions

        return decompositions.table()[overload](*args, **kwargs)

    return untraced(kernel)


def _attention() -> Callable[..., Any]:
    """Return the kernel of attention; it runs the decomposed form if no single kernel does."""
    planned = _kernel(attention.OVERLOAD, lambda _: _decomposed_attention)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if _native_kernels:
            return planned(*args, **kwargs)
        return _decomposed_attention(args, kwargs)

    return untraced(kernel)


def _decomposed_attention(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    from torch_spyre._inductor.decompositions.attention import decomposed_attention

    return decomposed_attention(*args, **kwargs)


def _make_plan(
    overload: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    families: EagerFamilies,
    make_fallback_plan: Callable[[torch._ops.OpOverload], Plan],
) -> Plan:
    plan = (
        host_indices.plan(overload, args)
        or expanded_targets.plan(overload, args)
        or _plan_zeros_like_fake(overload, args)
        or families.plan(args, kwargs)
        or _plan_or_none(overload, args, kwargs)
        or nonzero.plan_mask_indexing(overload, args)
        or make_fallback_plan(overload)
    )
    return nonzero.with_check_of_source(overload, args, plan)


def _plan_zeros_like_fake(overload: torch._ops.OpOverload, args: Sequence[Any]) -> Plan | None:
    """Plan `zeros_like` of a fake tensor.

    PyTorch calls it to run ops that have no fake kernel on zeros.
    """
    if overload is not torch.ops.aten.zeros_like.default:
        return None
    if args[0].untyped_storage().device.type != "meta":
        return None
    return lambda args, kwargs: torch.empty_like(*args, **kwargs).zero_()


def _plan_or_none(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Plan | None:
    """Return the compiler's plan; None if it cannot compile the call."""
    if not may_have_kernel(str(overload)):
        return None
    from torch_spyre._inductor.eager_op import plan_eager_op

    try:
        return plan_eager_op(overload, args, kwargs)
    except CompilerFailure as error:
        warn_at(current_line(), text_with_notes(error), RuntimeWarning)
        logger.exception("%s falls back", overload)
    except UnsupportedError as error:
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s falls back at %s: %s", overload, current_line(), error)
    return None


def _on_cpu(overload: torch._ops.OpOverload) -> Plan:
    """Return a plan that runs the op on the CPU."""
    schema = overload._schema
    name, variant = schema.name, schema.overload_name
    is_tensor_argument = [str(argument.type) == "Tensor" for argument in schema.arguments]

    def plan(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        values = [
            _as_tensor(value, args) if is_tensor else value
            for value, is_tensor in zip(args, is_tensor_argument, strict=False)
        ]
        return _C._run_on_cpu(name, variant, tuple(values), kwargs)

    return plan


def _not_planned(overload: torch._ops.OpOverload) -> Plan:
    """Return a plan that rejects the call, for ops that the CPU does not have."""

    def plan(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        raise UnsupportedError(f"{overload} with these arguments")

    return plan


# The dtypes that hold every value of a Python scalar. The default dtype would round them.
_SCALAR_DTYPES = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


def _as_tensor(value: Any, args: Sequence[Any]) -> Any:
    """Return a scalar as a 0-d tensor of the dtype that type promotion with the others gives."""
    if isinstance(value, torch.Tensor) or value is None:
        return value
    if isinstance(value, bool):  # promotes nothing, and subtraction rejects it
        return torch.tensor(value)
    tensor = next(argument for argument in args if isinstance(argument, torch.Tensor))
    dtype = _SCALAR_DTYPES[type(value)]
    # Converted afterwards: torch.tensor rejects values that the dtype cannot hold.
    return torch.tensor(value, dtype=dtype).to(torch.result_type(tensor, value))

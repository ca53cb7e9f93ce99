"""Eager ops: each is a graph of one op, compiled when it is first called with such arguments.

A kernel looks at the metadata of its arguments and finds the plan that was made for it. The
compiler is imported when the first plan is made.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import UnsupportedError
from torch_spyre.logging_config import get_logger
from torch_spyre.ops.native import COMPOSED, eager_overloads

logger = get_logger(__name__)

# Plans of one op that are kept; the oldest goes first.
_MOST_PLANS = 4096
Plan = Callable[[Sequence[Any], dict[str, Any]], Any]
# torch.library unregisters what is not kept.
_libraries: list[torch.library.Library] = []


def register() -> None:
    """Registers a kernel for every overload that the compiler can do."""
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        # PyTorch composes some of these in ways that do not suit the CPU; the extension has them
        # fall back whole, until they are overridden here.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for overload in eager_overloads():
            library.impl(overload, _kernel(overload), "PrivateUse1", allow_override=True)
    for name in COMPOSED:
        overload = getattr(torch.ops.aten, name).default
        library.impl(overload, _composed(overload), "PrivateUse1")


def _kernel(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    plans: dict[object, Plan] = {}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        key = _C.arguments_key(args, kwargs)
        plan = plans.get(key)
        if plan is None:
            if any(map(_is_host_number, (*args, *kwargs.values()))):
                plan = _with_numbers_on_card(kernel)
            else:
                plan = _planned(overload, args, kwargs)
            if key is not None:
                if len(plans) >= _MOST_PLANS:
                    plans.pop(next(iter(plans)), None)
                plans[key] = plan
        return plan(args, kwargs)

    return kernel


def _composed(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """An op whose decomposition runs op by op."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        from torch_spyre._inductor import decompositions

        return decompositions.table()[overload](*args, **kwargs)

    return kernel


def _is_host_number(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() == 0


def _with_numbers_on_card(kernel: Callable[..., Any]) -> Plan:
    """Numbers in tensors on the host may differ in each call: they travel, the plan stays."""

    def plan(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        values = (*args, *kwargs.values())
        others = [
            each for each in values if isinstance(each, torch.Tensor) and not _is_host_number(each)
        ]
        floating = any(each.is_floating_point() for each in others)
        device = others[0].device if others else torch.device(DEVICE_NAME)

        def moved(value: Any) -> Any:
            if not _is_host_number(value):
                return value
            # Next to floats on the card, a double only says what kind of number it is.
            as_float = floating and value.dtype is torch.float64
            return value.to(device, torch.float32 if as_float else value.dtype)

        return kernel(*map(moved, args), **{name: moved(value) for name, value in kwargs.items()})

    return plan


def _planned(overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Plan:
    from torch_spyre._inductor.one_op import plan_op

    try:
        return plan_op(overload, args, kwargs)
    except UnsupportedError as error:
        logger.info("%s falls back: %s", overload, error)
        return _on_cpu(overload)


def _on_cpu(overload: torch._ops.OpOverload) -> Plan:
    name, variant = overload._schema.name, overload._schema.overload_name

    def plan(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return _C._run_on_cpu(name, variant, tuple(args), kwargs)

    return plan

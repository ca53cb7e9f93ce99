"""The registry of lowerings of ops on the card to Inductor's loops."""

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import fallback_handler, lowerings
from torch.utils import _pytree as pytree

from torch_spyre.constants import DEVICE_NAME

TABLE: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def register_lowering(
    *overloads: torch._ops.OpOverload,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the lowering of overloads for tensors on the card.

    The function returns None for arguments that it leaves to Inductor's lowering.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            TABLE[overload] = _only_on_card(overload, function)
        return function

    return register


def _only_on_card(
    overload: torch._ops.OpOverload, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap a lowering so that ops on the CPU get Inductor's lowering, or else the ATen kernel."""

    def lowering(*args: Any, **kwargs: Any) -> Any:
        boxes = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, ir.TensorBox)]
        if any(box.get_device_or_error().type == DEVICE_NAME for box in boxes):
            return function(*args, **kwargs)
        if overload in lowerings and lowerings[overload] is not lowering:
            return None
        return fallback_handler(overload, add_to_fallback_set=False)(*args, **kwargs)

    return lowering

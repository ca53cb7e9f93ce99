"""Our own lowerings: what an op becomes in Inductor's loops when it runs on the card."""

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import fallback_handler, lowerings
from torch.utils import _pytree as pytree

from torch_spyre.constants import DEVICE_NAME

TABLE: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def lowers(*overloads: torch._ops.OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """None from a lowering means: Inductor's own. Only ops on the card get here."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            TABLE[overload] = _for_the_card(overload, function)
        return function

    return register


def _for_the_card(
    overload: torch._ops.OpOverload, function: Callable[..., Any]
) -> Callable[..., Any]:
    """A graph may compute on the CPU as well: there the op is Inductor's, or runs as it is."""

    def lowering(*args: Any, **kwargs: Any) -> Any:
        boxes = [each for each in pytree.tree_leaves(args) if isinstance(each, ir.TensorBox)]
        if any(box.get_device_or_error().type == DEVICE_NAME for box in boxes):
            return function(*args, **kwargs)
        if overload in lowerings and lowerings[overload] is not lowering:
            return None
        return fallback_handler(overload, add_to_fallback_set=False)(*args, **kwargs)

    return lowering

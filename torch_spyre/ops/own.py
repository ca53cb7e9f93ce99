"""Ops of our own, made of others: a call of one is one plan, where the others would be many.

The dispatcher never sees them. They have schemas so that plans know what they write.
"""

from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("spyre", "FRAGMENT")
# What each does, on the tensors it is given; the compiler traces it.
BODIES: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def defines(schema: str) -> Callable[[Callable[..., Any]], torch._ops.OpOverload]:
    """The decorated function is what the op does; its name becomes the op."""

    def define(body: Callable[..., Any]) -> torch._ops.OpOverload:
        name = _library.define(schema)
        overload: torch._ops.OpOverload = getattr(torch.ops.spyre, name).default
        BODIES[overload] = body
        return overload

    return define

"""Ops of the `spyre` namespace: one plan for what would be a call of several ops.

No kernel of them is registered with the dispatcher. Their schemas tell plans what they write.
"""

from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("spyre", "FRAGMENT")
# The functions that implement them; the compiler traces these.
BODIES: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def defines(schema: str) -> Callable[[Callable[..., Any]], torch._ops.OpOverload]:
    """Define an op that the decorated function implements; the function's name becomes the op."""

    def define(body: Callable[..., Any]) -> torch._ops.OpOverload:
        name = _library.define(schema)
        overload: torch._ops.OpOverload = getattr(torch.ops.spyre, name).default
        BODIES[overload] = body
        return overload

    return define

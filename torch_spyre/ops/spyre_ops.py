"""Ops of the `spyre` namespace: each combines several ops in one plan.

The dispatcher has no kernels for them. Plans read from their schemas which arguments they write.
"""

from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("spyre", "FRAGMENT")
# The functions that implement the ops; the compiler traces them.
BODIES: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def defines(schema: str) -> Callable[[Callable[..., Any]], torch._ops.OpOverload]:
    """Define an op that the decorated function implements; the function's name becomes the op."""

    def define(body: Callable[..., Any]) -> torch._ops.OpOverload:
        name = _library.define(schema)
        overload: torch._ops.OpOverload = getattr(torch.ops.spyre, name).default
        BODIES[overload] = body
        return overload

    return define

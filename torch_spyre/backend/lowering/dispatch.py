"""Dispatches each op of a block to the lowering registered for its class."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Block, Operation

from torch_spyre.backend.lowering.context import KernelContext

Handler = Callable[[KernelContext, Any], None]
# Filled by `kernel`, which imports every lowering.
HANDLERS: dict[type[Operation], Handler] = {}
# Tried in order for ops without a handler; the first that returns True has lowered the op.
FALLBACKS: list[Callable[[KernelContext, Operation], bool]] = []


def lower_block(kernel: KernelContext, block: Block) -> None:
    """Lower every op but the terminator, which belongs to the op around the block."""
    for operation in block.ops:
        if operation is block.last_op:
            return
        kernel.set_location(operation)
        handler = HANDLERS.get(type(operation))
        if handler is not None:
            handler(kernel, operation)
        elif not any(fallback(kernel, operation) for fallback in FALLBACKS):
            raise kernel.error("the card has no instruction for this op")

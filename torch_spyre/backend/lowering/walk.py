"""Going through the ops of a block: each is handed to the lowering of its kind."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Block, Operation

from torch_spyre.backend.lowering.context import KernelContext

Handler = Callable[[KernelContext, Any], None]
# Filled by `kernel`, which knows every lowering.
HANDLERS: dict[type[Operation], Handler] = {}
# Tried for ops that have no handler of their own; the first that returns True has done it.
FALLBACKS: list[Callable[[KernelContext, Operation], bool]] = []


def lower_block(kernel: KernelContext, block: Block) -> None:
    """Everything but the terminator, which belongs to the op around the block."""
    for operation in block.ops:
        if operation is block.last_op:
            return
        kernel.at(operation)
        handler = HANDLERS.get(type(operation))
        if handler is not None:
            handler(kernel, operation)
        elif not any(fallback(kernel, operation) for fallback in FALLBACKS):
            raise kernel.error("the card has no instruction for this op")

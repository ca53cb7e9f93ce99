"""From a KTIR function to the instructions of a device program.

Data flows through the files in this order: `kernel` walks the function and hands each op to the
file of its kind (`arguments`, `constants`, `elementwise`, `reductions`, `products`, `shapes`,
`views`, `transfers`, `communication`, `control`), which appends `nodes` over unplaced `values`.
`fusion` joins elementwise nodes, `coalescing` removes copies, `placement` gives every value its
place in the scratchpad for as long as it lives (`lives`), and `emission` writes the instructions.
"""

from torch_spyre.backend.lowering.kernel import compile_function

__all__ = ["compile_function"]

"""Lowers KTIR functions to the instructions of device programs.

Data flows through the files in this order: `kernel` compiles a function. `dispatch` calls the
lowering of each op (`arguments`, `constants`, `elementwise`, `reductions`, `matmul`, `shapes`,
`views`, `transfers`, `communication`, `control`), which appends `nodes` whose `values` have no
address. `fusion` fuses elementwise nodes, `coalescing` removes copies, `scratchpad_allocation`
allocates buffers by their live ranges (`liveness`), and `emission` emits the instructions.
"""

from torch_spyre.backend.lowering.kernel import array_sizes, compile_function

__all__ = ["array_sizes", "compile_function"]

"""Ops that are several loops in one kernel, such as attention: matmul, softmax, matmul.

`interface.MultiLoopOp` lists what the compiler needs to know of such an op: its names, the roles of
its loops, the sticks of its tensors, the loops that merge with it, its splits over cores, tiles and
instructions, and the checks of specs that are read from files. The passes look ops up by name in
`registry` and contain no other reference to any of them. A new op is one more module here, entered
in `registry.BUILTIN_MODULES`, and a lowering.
"""

"""Interprets KTIR: the definition of what a kernel computes, without compiling it.

`interpret` runs a function on arrays of bytes, one op after the other on whole tensors, with the
golden models of the vector instructions. Sums and matmuls are computed in float64 and rounded once,
so they may differ from the card's in the last place; everything else is equal bit by bit. It is
slow, and meant for finding out which side of KTIR an error is on.
"""

from torch_spyre.ktir.interpreter.machine import interpret

__all__ = ["interpret"]

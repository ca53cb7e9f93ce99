"""Gathers and scatters of tensors of three dims along the middle one, in the scratchpad.

`op.py` is the interface to the compiler, `tiling.py` chooses tiles, and `emission.py` emits a tile.
"""

"""Scans: each element of the result combines all elements up to its own.

`op.py` is the interface to the compiler, `tiling.py` chooses tiles, and `emission.py` emits a tile.
"""

"""Sorts: the first elements of rows in their order, and their indices.

`op.py` is the interface to the compiler, `tiling.py` chooses tiles, and `emission.py` emits a tile.
"""

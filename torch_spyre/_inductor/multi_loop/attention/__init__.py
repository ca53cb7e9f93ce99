"""Scaled dot-product attention as one kernel, in which no score leaves the scratchpads.

`op` implements the interface of multi-loop ops; `operands` names tensors and loops, `tiling` splits
rows over cores and chooses tiles, `online_softmax` emits a tile of rows with `scores`, `key_loop`
and `tile_tensors`, and `op_info` checks specs that are read from files. docs/attention.md describes
the algorithm.
"""

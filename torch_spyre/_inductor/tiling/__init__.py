"""Iteration spaces and tiles: what the passes and the emitter must agree on.

`access.py` describes how a tensor is accessed at the points of a tile, `iteration_space.py` the
symbols that the OpSpecs of a kernel share and a core's slice of each, `tile_plan.py` the tiles that
fit the scratchpad. This package imports neither passes nor the emitter.
"""

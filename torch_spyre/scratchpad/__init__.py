"""Occupancy of scratchpads: which tensors are where in a core's LX while it runs a program.

Everything is derived from the addresses in device programs, so the files of a dump are enough.
"""

from torch_spyre.scratchpad.figures import ScratchpadFigures, figures
from torch_spyre.scratchpad.occupancy import Occupancy, Tensor, occupancy

__all__ = ["Occupancy", "ScratchpadFigures", "Tensor", "figures", "occupancy"]

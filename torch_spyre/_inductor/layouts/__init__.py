"""Layout planning: device coordinates of accesses, and the layout of each buffer of a graph.

`coordinates` computes the device coordinates of an access, `alignment` splits the loops of an op so
that these are loop variables, `sticks` decides which accesses an op supports and which copies the
others need, `propagation` lists the candidate layouts of an op's result, and `layout_search`
chooses among them. All are pure functions of sizes, strides and indices, independent of Inductor.
"""

import torch  # noqa: F401  (first: _C needs its libraries)

from torch_spyre._inductor.layouts.alignment import Alignment, align
from torch_spyre._inductor.layouts.coordinates import device_coordinates, host_coordinates
from torch_spyre._inductor.layouts.graph import (
    WRITE,
    Access,
    Buffer,
    LayoutOp,
    LayoutPlan,
    Restickify,
)
from torch_spyre._inductor.layouts.layout_search import plan_layouts

__all__ = [
    "WRITE",
    "Access",
    "Alignment",
    "Buffer",
    "LayoutOp",
    "LayoutPlan",
    "Restickify",
    "align",
    "device_coordinates",
    "host_coordinates",
    "plan_layouts",
]

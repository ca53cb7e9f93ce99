"""How the compiler reads tensor layouts, and which layout each buffer of a graph gets.

`coordinates` says where an access lands in a tiled buffer, `alignment` rewrites the loops of an op
so that its coordinates are plain, `sticks` says which accesses can be computed on together and
which copies make them so, `propagation` lists the layouts an op could write, and `choice` picks
among them. Pure functions of sizes, strides and indices; nothing here knows Inductor.
"""

import torch  # noqa: F401  (first: our library needs its libraries)

from torch_spyre._inductor.layouts.alignment import Alignment, align
from torch_spyre._inductor.layouts.choice import plan_layouts
from torch_spyre._inductor.layouts.coordinates import device_coordinates, host_coordinates
from torch_spyre._inductor.layouts.graph import (
    WRITE,
    Access,
    Buffer,
    LayoutOp,
    LayoutPlan,
    Restickify,
)

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

"""Our own lowerings: what an op becomes in Inductor's loops when it runs on the card."""

from torch_spyre._inductor.lowerings import (  # noqa: F401  (they register what they lower)
    attention,
    folds,
    gathers,
    joins,
    pointwise,
    scatters,
)
from torch_spyre._inductor.lowerings.registry import TABLE

__all__ = ["TABLE"]

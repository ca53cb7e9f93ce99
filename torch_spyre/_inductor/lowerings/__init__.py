"""Lowerings of ops to Inductor's loops, where those of Inductor do not suit the card."""

from torch_spyre._inductor.lowerings import (  # noqa: F401  (importing registers)
    attention,
    cat,
    gather,
    index_put,
    matmul,
    pointwise,
    random,
    reductions,
    scan,
    scatter,
    sort,
)
from torch_spyre._inductor.lowerings.registry import TABLE

__all__ = ["TABLE"]

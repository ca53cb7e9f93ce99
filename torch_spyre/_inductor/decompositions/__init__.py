"""Our own decompositions, and those of Inductor's that we do without."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import OURS
from torch_spyre.ops import recurrent

aten = torch.ops.aten
# One instruction of the card each: lowered as they are.
_KEPT = (aten.silu, aten.gelu)


@cache
def table() -> dict[Any, Callable[..., Any]]:
    from torch._inductor.decomposition import select_decomp_table

    # They register what they decompose.
    from torch_spyre._inductor.decompositions import (  # noqa: F401  # for their tables
        adaptive_pooling,
        antialiasing,
        attention,
        bessel_functions,
        convolution_gradients,
        convolutions,
        division,
        elementwise,
        embedding_bags,
        filling,
        folds,
        foreach,
        gamma_functions,
        grid_sampling,
        indexing,
        norms,
        pooling,
        products,
        resampling,
        scans,
        sequences,
        sorting,
        special_functions,
        triangles,
        triangular_systems,
        unfolding,
        unpooling,
    )

    found = dict(select_decomp_table())
    # Products are products on the card, whatever their sizes; what we lower ourselves.
    for overload in (aten.mm.default, aten.bmm.default, aten.index_select.default):
        found.pop(overload, None)
    for packet in _KEPT:
        for name in packet.overloads():
            found.pop(getattr(packet, name), None)
    found.update(OURS)
    found.update(recurrent.CELLS)
    return found

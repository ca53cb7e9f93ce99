"""The decompositions of graphs on the card: ours, and Inductor's except for ops that we lower."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

from torch_spyre._inductor.decompositions.registry import OURS
from torch_spyre.ops import recurrent
from torch_spyre.ops.registry import ENTRIES


@cache
def table() -> dict[Any, Callable[..., Any]]:
    from torch._inductor.decomposition import select_decomp_table

    # Importing them registers their decompositions.
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

    decompositions = dict(select_decomp_table())
    for overload in _kept_whole():
        decompositions.pop(overload, None)
    decompositions.update(OURS)
    decompositions.update(recurrent.CELLS)
    return decompositions


def _kept_whole() -> Iterator[torch._ops.OpOverload]:
    """Yield the overloads whose decomposition by PyTorch is not used: the card has the op."""
    for entry in ENTRIES.values():
        if entry.is_kept_whole:
            packet = getattr(torch.ops.aten, entry.name)
            yield from (getattr(packet, overload) for overload in packet.overloads())

"""The decompositions of graphs on the card: those of this package, and Inductor's."""

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_spyre._inductor.decompositions.registry import DECOMPOSITIONS
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.dtypes import RAW_DTYPES
from torch_spyre.ops import recurrent
from torch_spyre.ops.registry import ENTRIES


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of all ops, by overload."""
    from torch._inductor.decomposition import select_decomp_table

    from torch_spyre._inductor.decompositions import (  # noqa: F401  (importing registers)
        adaptive_pooling,
        antialiasing,
        attention,
        bessel_functions,
        convolution,
        convolution_backward,
        division,
        elementwise,
        embedding_bag,
        filling,
        foreach,
        gamma_functions,
        grid_sampling,
        im2col,
        indexing,
        interpolate,
        linspace,
        matmul,
        max_unpool,
        norms,
        padding,
        pooling,
        random,
        reductions,
        scans,
        sorting,
        special_functions,
        transformer,
        triangular_solve,
        tril_triu,
    )
    from torch_spyre._inductor.decompositions.result_strides import with_result_strides

    decompositions = dict(select_decomp_table())
    for overload in _native_overloads():
        decompositions.pop(overload, None)
    for overload, function in DECOMPOSITIONS.items():
        decompositions[overload] = _for_native_dtypes(function, decompositions.get(overload))
    decompositions.update(recurrent.CELLS)
    return {
        overload: with_result_strides(overload, function)
        if isinstance(overload, torch._ops.OpOverload)
        else function
        for overload, function in decompositions.items()
    }


def _for_native_dtypes(
    function: Callable[..., Any], of_pytorch: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Return a decomposition that uses PyTorch's for dtypes that the card only stores, if any.

    Ours compute in float32, which would round float64.
    """

    @wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        if not any(map(_is_stored_only, tree_leaves((args, kwargs)))):
            return function(*args, **kwargs)
        return NotImplemented if of_pytorch is None else of_pytorch(*args, **kwargs)

    return decomposition


def _is_stored_only(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in RAW_DTYPES
        and value.device.type == DEVICE_NAME
    )


def _native_overloads() -> Iterator[torch._ops.OpOverload]:
    """Yield the overloads that PyTorch decomposes, but that the card supports as they are."""
    for entry in ENTRIES.values():
        if entry.is_kept_whole:
            packet = getattr(torch.ops.aten, entry.name)
            yield from (getattr(packet, overload) for overload in packet.overloads())

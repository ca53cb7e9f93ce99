"""`spyre::attention`: scaled dot-product attention as one op, which has one kernel."""

import torch

_library = torch.library.Library("spyre", "DEF")
_library.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, bool is_causal, float? scale)"
    " -> (Tensor, Tensor)"
)


def order_of_dims(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[int, int, int]:
    """Return the order in memory of a result's batches, heads and rows, the outermost first.

    It is that of the query if the CPU has one kernel for these arguments: heads that were split off
    rows are merged without a copy. Otherwise the result is contiguous.
    """
    if not has_kernel_on_cpu(query, key, value):
        return 0, 1, 2
    strides = query.stride()
    first, second, third = sorted(range(3), key=strides.__getitem__, reverse=True)
    return first, second, third


def has_kernel_on_cpu(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether the CPU has one kernel for these arguments, which decides about strides."""
    return (
        query.dim() == 4
        and query.shape[-1] == value.shape[-1]
        and all(tensor.stride(-1) == 1 for tensor in (query, key, value))
    )


def _shapes(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_shapeless: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return empty tensors like the result and the logarithm of the sum of exponentials per row.

    Bias, mask and scale change no shape.
    """
    rows = query.shape[:-1]
    order = order_of_dims(query, key, value)
    positions = [order.index(dim) for dim in range(3)]
    result = query.new_empty((*(rows[dim] for dim in order), value.shape[-1])).permute(
        *positions, 3
    )
    return result, query.new_empty(rows, dtype=torch.float32)


_library.impl("attention", _shapes, "Meta")
OVERLOAD: torch._ops.OpOverload = torch.ops.spyre.attention.default

"""`spyre::attention`: scaled dot-product attention as one op, which has one kernel."""

import torch

_library = torch.library.Library("spyre", "DEF")
_library.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, bool is_causal, float? scale)"
    " -> (Tensor, Tensor)"
)


def _shapes(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_shapeless: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return empty tensors like the result and the logarithm of the sum of exponentials per row.

    The dims of the result have the order in memory that those of the query have: heads that were
    split off rows are merged without a copy. Bias, mask and scale change no shape.
    """
    rows = query.shape[:-1]
    # The channels stay innermost whatever their stride in the query is.
    order = sorted(range(3), key=query.stride().__getitem__, reverse=True)
    positions = [order.index(dim) for dim in range(3)]
    result = query.new_empty((*(rows[dim] for dim in order), value.shape[-1])).permute(
        *positions, 3
    )
    return result, query.new_empty(rows, dtype=torch.float32)


_library.impl("attention", _shapes, "Meta")
OVERLOAD: torch._ops.OpOverload = torch.ops.spyre.attention.default

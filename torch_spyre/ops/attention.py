"""`spyre::attention`: scaled dot-product attention as one op, for which there is a kernel."""

import torch

_library = torch.library.Library("spyre", "DEF")
_library.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, bool is_causal, float? scale)"
    " -> (Tensor, Tensor)"
)


def _shapes(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_shapeless: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the logarithm of each row's sum of exponentials.

    Heads that were cut out of rows go back there: dims are in memory in the order of the query's.
    Bias, mask and scale change no shape.
    """
    rows = query.shape[:-1]
    # Channels stay together whatever the query does with them.
    order = sorted(range(3), key=query.stride().__getitem__, reverse=True)
    places = [order.index(dim) for dim in range(3)]
    result = query.new_empty((*(rows[dim] for dim in order), value.shape[-1])).permute(*places, 3)
    return result, query.new_empty(rows, dtype=torch.float32)


_library.impl("attention", _shapes, "Meta")
OVERLOAD: torch._ops.OpOverload = torch.ops.spyre.attention.default

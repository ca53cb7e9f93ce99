"""`spyre::sort`: the first elements of rows in their order, as one op, which has one kernel."""

import torch

_library = torch.library.Library("spyre", "FRAGMENT")
_library.define(
    "sort(Tensor x, Tensor? indices, int kept, bool descending, int runs=1) -> (Tensor, Tensor)"
)


def _shape(
    x: torch.Tensor,
    indices: torch.Tensor | None,
    kept: int,
    descending: bool,
    runs: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return empty tensors like the values and the indices.

    `x` has three dims; the middle one is sorted, and the first `kept` elements are returned. Equal
    elements are in the order of their `indices`, by default their positions. `x` consists of sorted
    runs of `runs` elements; the last may be shorter.
    """
    outer, _, inner = x.shape
    return (
        x.new_empty((outer, kept, inner)),
        x.new_empty((outer, kept, inner), dtype=torch.int64),
    )


_library.impl("sort", _shape, "Meta")
OVERLOAD: torch._ops.OpOverload = torch.ops.spyre.sort.default

"""`spyre::scan`: cumulative reductions along one dim as one op, which has one kernel."""

import torch

_library = torch.library.Library("spyre", "FRAGMENT")
_library.define("scan(Tensor x, str combine, ScalarType dtype) -> Tensor")


def _shape(x: torch.Tensor, combine: str, dtype: torch.dtype) -> torch.Tensor:
    """Return an empty tensor like the result. `x` has three dims; the middle one is scanned."""
    return x.new_empty(x.shape, dtype=dtype)


_library.impl("scan", _shape, "Meta")
OVERLOAD: torch._ops.OpOverload = torch.ops.spyre.scan.default

"""`torch.equal`: the comparison is the card's, and one flag comes back."""

import torch

from torch_spyre import _C


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = one.dtype == other.dtype and one.device == other.device
    if not alike or one.untyped_storage()._cdata == other.untyped_storage()._cdata:
        # The CPU's kernel knows what to say, and what one tensor is to itself.
        same: bool = _C._run_on_cpu("aten::equal", "", (one, other), {})
        return same
    return one.shape == other.shape and bool((one == other).all())

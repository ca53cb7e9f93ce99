"""`torch.equal`: the comparison is the card's, and one flag comes back."""

import torch

from torch_spyre import _C


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.device != other.device:
        # The CPU's kernel knows what to say.
        same: bool = _C._run_on_cpu("aten::equal", "", (one, other), {})
        return same
    if one.shape != other.shape:
        return False
    return _is_itself(one, other) or bool((one == other).all())


def _is_itself(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Is nothing to be compared? A tensor equals itself, except for NaN."""
    return (
        not one.is_floating_point()
        and one.untyped_storage()._cdata == other.untyped_storage()._cdata
        and one.storage_offset() == other.storage_offset()
        and one.stride() == other.stride()
    )

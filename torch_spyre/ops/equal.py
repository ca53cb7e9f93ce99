"""`torch.equal`: the card compares, and the host reads one bool."""

import torch

from torch_spyre import _C


def equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    if x.dtype != y.dtype or x.device != y.device:
        # The CPU kernel raises the error.
        result: bool = _C._run_on_cpu("aten::equal", "", (x, y), {})
        return result
    if x.shape != y.shape:
        return False
    return _are_same_view(x, y) or bool((x == y).all().item())


def _are_same_view(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Return whether both are one view of one storage, which is equal to itself except for NaN."""
    return (
        not x.is_floating_point()
        and x.untyped_storage()._cdata == y.untyped_storage()._cdata
        and x.storage_offset() == y.storage_offset()
        and x.stride() == y.stride()
    )

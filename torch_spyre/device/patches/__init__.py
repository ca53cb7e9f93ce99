"""Every change to PyTorch's own Python classes and to safetensors', one kind a file.

PyTorch has no hook for these; each file says what is missing. All are harmless for tensors
elsewhere: they look at the device first and hand over to the original.
"""

import torch

from torch_spyre.device.patches import (
    copying,
    flex_attention,
    grad_scaler,
    host_access,
    layout_arguments,
    module_loading,
    optimizers,
    printing,
    processes,
    safetensors_loading,
    storage_files,
    wrapping,
)

_PATCHES = (
    printing,
    layout_arguments,
    copying,
    storage_files,
    host_access,
    grad_scaler,
    optimizers,
    module_loading,
    processes,
    safetensors_loading,
    flex_attention,
)


def apply() -> None:
    """Applies all of them, once."""
    if getattr(torch.Tensor, "_spyre_tensor_patched", False):
        return
    wrapping.add(torch.Tensor, "_spyre_tensor_patched", True)
    for patch in _PATCHES:
        patch.apply()

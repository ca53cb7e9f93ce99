"""Functions on tensors that generated wrappers call."""

from collections.abc import Sequence

import torch

from torch_spyre import _C
from torch_spyre._inductor.layouts.sticks import default_layout
from torch_spyre.constants import DEVICE_NAME

_reinterpret_on_host = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]  # no stub


def reinterpret_tensor(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset_increment: int = 0
) -> torch.Tensor:
    if tensor.device.type == DEVICE_NAME:
        return _C.reinterpret_tensor(tensor, size, stride, offset_increment)
    view: torch.Tensor = _reinterpret_on_host(tensor, size, stride, offset_increment)
    return view


def in_default_layout(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy, in the layout that kernels assume for unknown tensors."""
    layout = default_layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    if tensor.storage_offset() == 0 and _C.get_spyre_tensor_layout(tensor) == layout:
        return tensor
    return _C.to_with_layout(tensor, layout)

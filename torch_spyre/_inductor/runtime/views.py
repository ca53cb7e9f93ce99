"""Views that generated wrappers make."""

from collections.abc import Sequence

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME

_on_host = torch._C._dynamo.guards._reinterpret_tensor


def reinterpret_tensor(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset_increment: int = 0
) -> torch.Tensor:
    if tensor.device.type == DEVICE_NAME:
        return _C.reinterpret_tensor(tensor, size, stride, offset_increment)
    view: torch.Tensor = _on_host(tensor, size, stride, offset_increment)
    return view

"""DLPack: PyTorch hands the device's handle out as if it were host memory."""

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.wrapping import Function, wrap
from torch_spyre.errors import HostAccessError


def apply() -> None:
    for owner, name in (
        (torch.Tensor, "__dlpack_device__"),
        (torch.Tensor, "__dlpack__"),
        (torch.utils.dlpack, "to_dlpack"),
        (torch, "to_dlpack"),
    ):
        wrap(owner, name, _refusing_host_access(name))


def _refusing_host_access(call: str) -> Callable[[Function], Function]:
    def wrap(original: Function) -> Function:
        def refuse(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if isinstance(tensor, torch.Tensor) and tensor.device.type == DEVICE_NAME:
                raise HostAccessError(call, str(tensor.device))
            return original(tensor, *args, **kwargs)

        return refuse

    return wrap

"""`torch.amp.GradScaler`: takes the inverse of the scale in float64, which the card has not.

float32 divides exactly enough, as on other devices without float64.
"""

from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.wrapping import Function, wrap


def apply() -> None:
    wrap(torch.amp.GradScaler, "unscale_", _unscaling_in_float32)


def _unscaling_in_float32(original: Function) -> Function:
    def unscale_(self: Any, optimizer: torch.optim.Optimizer) -> None:
        scale = self._scale
        if scale is None or scale.device.type != DEVICE_NAME:
            original(self, optimizer)
            return
        self._scale = _ScaleInFloat32(scale)
        try:
            original(self, optimizer)
        finally:
            self._scale = scale

    return unscale_


class _ScaleInFloat32:
    def __init__(self, scale: torch.Tensor) -> None:
        self.device = scale.device
        self.reciprocal = scale.reciprocal

    def double(self) -> "_ScaleInFloat32":
        return self

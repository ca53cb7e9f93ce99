"""`torch.amp.GradScaler` without float64, which cards do not have."""

from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    wrap(undo, torch.amp.GradScaler, "unscale_", _unscaling_in_float32)


def _unscaling_in_float32(original: Function) -> Function:
    def unscale_(self: Any, optimizer: torch.optim.Optimizer) -> None:
        # Before the first scale(), and if scaling is disabled, there is none.
        scale = vars(self).get("_scale")
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
    """A scale whose `double` stays float32: its reciprocal is exact enough."""

    def __init__(self, scale: torch.Tensor) -> None:
        self.device = scale.device
        self.reciprocal = scale.reciprocal

    def double(self) -> "_ScaleInFloat32":
        return self


PATCH = Patch(
    name="grad_scaler",
    targets=(PrivateName("torch.amp.GradScaler.unscale_", ("optimizer",)),),
    changes="`GradScaler.unscale_` computes the inverse of the scale in float32.",
    reason="It calls `self._scale.double()`; the list of devices without float64 is hard-coded.",
    breaks="Training with `GradScaler` raises an unsupported dtype error for float64.",
    apply=_apply,
)

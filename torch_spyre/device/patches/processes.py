"""Tensors that cross process borders through `torch.multiprocessing`.

Device memory cannot be shared between processes. A tensor on a card travels as a CPU tensor in
shared memory and is moved to the card on the other side; PyTorch's own way fails in a background
thread, and the receiver waits for ever.
"""

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from torch_spyre.constants import DEVICE_NAME


def apply() -> None:
    original: Callable[[torch.Tensor], Any] = reductions.reduce_tensor

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        if tensor.device.type != DEVICE_NAME:
            return original(tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        return _rebuild, (
            tensor.detach().cpu(),
            str(tensor.device),
            tensor.requires_grad,
            is_parameter,
        )

    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reduce_tensor)


def _rebuild(
    host: torch.Tensor, device: str, requires_grad: bool, is_parameter: bool
) -> torch.Tensor:
    moved = host.to(device)
    if is_parameter:
        return torch.nn.Parameter(moved, requires_grad)
    return moved.requires_grad_(requires_grad)

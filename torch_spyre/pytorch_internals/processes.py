"""Sending tensors to other processes with `torch.multiprocessing`.

Processes cannot share device memory: a tensor on a card is sent as a CPU tensor in shared memory
and moved to the card by the receiver.
"""

from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName


def _apply(undo: ExitStack) -> None:
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
        undo.callback(ForkingPickler.register, kind, original)


def _rebuild(
    host: torch.Tensor, device: str, requires_grad: bool, is_parameter: bool
) -> torch.Tensor:
    moved = host.to(device)
    if is_parameter:
        return torch.nn.Parameter(moved, requires_grad)
    return moved.requires_grad_(requires_grad)


PATCH = Patch(
    name="multiprocessing",
    targets=(PrivateName("torch.multiprocessing.reductions.reduce_tensor", ("tensor",)),),
    changes="Tensors on a card are sent through a queue as CPU tensors in shared memory.",
    reason="`reduce_tensor` shares storages of CUDA and CPU only; the registration of reductions "
    "for other devices is not public.",
    breaks="Sending fails in a background thread of the queue and the receiver waits forever.",
    apply=_apply,
)

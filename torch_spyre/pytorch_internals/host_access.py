"""DLPack export of tensors and swapping bytes of storages on a card raise an error."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import HostAccessError
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    for owner, name in (
        (torch.Tensor, "__dlpack_device__"),
        (torch.Tensor, "__dlpack__"),
        (torch.utils.dlpack, "to_dlpack"),
        (torch, "to_dlpack"),
        (torch.UntypedStorage, "byteswap"),
    ):
        wrap(undo, owner, name, _rejecting_cards(name))


def _rejecting_cards(call: str) -> Callable[[Function], Function]:
    def wrapping(original: Function) -> Function:
        def export(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_memory = isinstance(tensor, torch.Tensor | torch.UntypedStorage)
            if is_memory and tensor.device.type == DEVICE_NAME:
                raise HostAccessError(call, str(tensor.device))
            return original(tensor, *args, **kwargs)

        return export

    return wrapping


PATCH = Patch(
    name="dlpack",
    targets=(
        PrivateName("torch.Tensor.__dlpack_device__"),
        PrivateName("torch.Tensor.__dlpack__", ("stream",)),
        PrivateName("torch.utils.dlpack.to_dlpack"),
        PrivateName("torch.to_dlpack"),
        PrivateName("torch.UntypedStorage.byteswap", ("dtype",)),
    ),
    changes="DLPack export of a tensor, and swapping the bytes of a storage, on a card raise "
    "`HostAccessError`.",
    reason="PyTorch uses the device handle as if it were a host address; there is no hook.",
    breaks="The process crashes when the address is accessed.",
    apply=_apply,
)

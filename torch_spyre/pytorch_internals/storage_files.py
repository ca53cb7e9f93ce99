"""Saving and loading storages, whose address is only a handle on a card."""

from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    wrap(undo, torch.UntypedStorage, "_write_file", _writing_the_host_image)
    wrap(undo, torch.UntypedStorage, "_set_from_file", _reading_a_host_image)
    # Public, and not undone: PyTorch cannot unregister. The priority is before the built-in ones.
    torch.serialization.register_package(19, lambda storage: None, _restore_empty_storage)


def _writing_the_host_image(original: Function) -> Function:
    def _write_file(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> None:
        original(self.cpu() if self.device.type == DEVICE_NAME else self, *args, **kwargs)

    return _write_file


# PyTorch's legacy file format fills storages after creating their tensors: by then ours have a
# tiled layout and may have another size than the file's.
def _reading_a_host_image(original: Function) -> Function:
    def _set_from_file(
        self: torch.UntypedStorage,
        file: Any,
        offset: int | None,
        is_real: bool,
        element_size: int,
    ) -> None:
        if self.device.type != DEVICE_NAME:
            original(self, file, offset, is_real, element_size)
            return
        start = file.tell() if offset is None else offset
        file.seek(start)
        count = int.from_bytes(file.read(8), "little")
        file.seek(start)
        host = torch.UntypedStorage(count * element_size)
        original(host, file, offset, is_real, element_size)
        common = min(host.nbytes(), self.nbytes())
        target = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)
        target[:common].copy_(torch.empty(0, dtype=torch.uint8).set_(host)[:common])

    return _set_from_file


# PyTorch's legacy file format creates storages first and fills them later. In between they get a
# tiled layout, and converting uninitialised memory could fail.
def _restore_empty_storage(storage: Any, location: str) -> Any:
    is_ours = location.split(":")[0] == DEVICE_NAME
    if not is_ours or "_torch_load_uninitialized" not in vars(storage):
        return None
    empty = torch.UntypedStorage(storage.nbytes(), device=location)
    torch.empty(0, dtype=torch.uint8, device=location).set_(empty).zero_()
    return empty


PATCH = Patch(
    name="storage_files",
    targets=(
        PrivateName("torch.UntypedStorage._write_file"),
        PrivateName("torch.UntypedStorage._set_from_file"),
    ),
    changes="Files hold the host image of a storage on a card.",
    reason="Both functions access the memory at the storage's address and have no device hook.",
    breaks="`torch.save` and `torch.load` of the legacy format crash for storages on a card.",
    apply=_apply,
)

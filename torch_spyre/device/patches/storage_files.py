"""Storages in files: PyTorch reads and writes what lies at a storage's address, which on a card is
only a handle."""

from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.wrapping import Function, wrap


def apply() -> None:
    wrap(torch.UntypedStorage, "_write_file", _writing_the_host_image)
    wrap(torch.UntypedStorage, "_set_from_file", _reading_a_host_image)
    # A priority of our own, before the built-in ones.
    torch.serialization.register_package(19, lambda storage: None, _restore_empty_storage)


def _writing_the_host_image(original: Function) -> Function:
    def _write_file(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> None:
        original(self.cpu() if self.device.type == DEVICE_NAME else self, *args, **kwargs)

    return _write_file


# PyTorch's old file format fills storages after their tensors were made, so ours
# are tiled by then and may have another size than the file's.
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


# PyTorch's old file format makes storages first and fills them later. In between they are tiled,
# which must not convert whatever the memory holds.
def _restore_empty_storage(storage: Any, location: str) -> Any:
    is_ours = location.split(":")[0] == DEVICE_NAME
    if not is_ours or "_torch_load_uninitialized" not in vars(storage):
        return None
    empty = torch.UntypedStorage(storage.nbytes(), device=location)
    torch.empty(0, dtype=torch.uint8, device=location).set_(empty).zero_()
    return empty

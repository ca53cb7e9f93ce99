"""Printing tensors and storages: PyTorch reads element by element, dozens of copies for a few
numbers."""

import re
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.wrapping import Function, is_spyre, wrap


def apply() -> None:
    wrap(torch.Tensor, "__repr__", _printing_once_copied)
    wrap(torch.UntypedStorage, "__str__", _storage_printing_once_copied)
    wrap(torch.TypedStorage, "__str__", _storage_printing_once_copied)
    wrap(torch.TypedStorage, "_getitem", _reading_padding_as_zero)


def _printing_once_copied(original: Function) -> Function:
    def __repr__(self: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        if not is_spyre(self) or tensor_contents is not None:
            return str(original(self, tensor_contents=tensor_contents))
        if self.numel() == 0:
            return _device_last(original(self))
        try:
            host = self.detach().cpu()
        except RuntimeError as error:
            shape = tuple(self.shape)
            return f"SpyreTensor(shape={shape}, dtype={self.dtype}, device={self.device}): {error}"
        contents = torch._tensor_str._tensor_str(host, len("tensor("))
        text = str(original(self, tensor_contents=contents))
        end = text.rindex(contents) + len(contents)
        return text[:end] + _device_last(text[end:])

    return __repr__


# Upstream prints the CPU copy with the device behind size and dtype; scripts compare the text.
_DEVICE_FIRST = re.compile(r"(device='[^']*')((?:,\s+(?:size=\([^)]*\)|dtype=[\w.]+))+)")


def _device_last(suffixes: str) -> str:
    return _DEVICE_FIRST.sub(lambda found: found[2].lstrip(", \n") + ", " + found[1], suffixes)


def _storage_printing_once_copied(original: Function) -> Function:
    def __str__(self: torch.UntypedStorage | torch.TypedStorage) -> str:
        storage = self._untyped_storage if isinstance(self, torch.TypedStorage) else self
        if storage.device.type != DEVICE_NAME:
            return str(original(self))
        host = storage.cpu()
        shown = self._new_wrapped_storage(host) if isinstance(self, torch.TypedStorage) else host
        values, line, description = str(original(shown)).rpartition("\n")
        return values + line + description.replace("device=cpu", f"device={storage.device}")

    return __str__


# A storage is as long as its sticks, but a tensor on it ends where the content does. The rest of
# the host image is zero.
def _reading_padding_as_zero(original: Function) -> Function:
    def _getitem(self: torch.TypedStorage, index: int) -> Any:
        storage = self._untyped_storage
        if storage.device.type == DEVICE_NAME and isinstance(index, int):
            content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            if self._maybe_wrap_index(index) >= _C.content_bytes(content) // self.dtype.itemsize:
                return torch.zeros((), dtype=self.dtype).item()
        return original(self, index)

    return _getitem

"""Printing tensors and storages with one copy to the host."""

import re
from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, is_spyre, wrap


def _apply(undo: ExitStack) -> None:
    wrap(undo, torch.Tensor, "__repr__", _printing_a_host_copy)
    wrap(undo, torch.UntypedStorage, "__str__", _printing_a_host_storage)
    wrap(undo, torch.TypedStorage, "__str__", _printing_a_host_storage)
    wrap(undo, torch.TypedStorage, "_getitem", _reading_padding_as_zero)


def _printing_a_host_copy(original: Function) -> Function:
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


# Upstream prints the CPU copy with the device after size and dtype; scripts compare the text.
_DEVICE_FIRST = re.compile(r"(device='[^']*')((?:,\s+(?:size=\([^)]*\)|dtype=[\w.]+))+)")


def _device_last(suffixes: str) -> str:
    return _DEVICE_FIRST.sub(lambda match: match[2].lstrip(", \n") + ", " + match[1], suffixes)


def _printing_a_host_storage(original: Function) -> Function:
    def __str__(self: torch.UntypedStorage | torch.TypedStorage) -> str:
        storage = self._untyped_storage if isinstance(self, torch.TypedStorage) else self
        if storage.device.type != DEVICE_NAME:
            return str(original(self))
        host = storage.cpu()
        copy = self._new_wrapped_storage(host) if isinstance(self, torch.TypedStorage) else host
        values, line, description = str(original(copy)).rpartition("\n")
        return values + line + description.replace("device=cpu", f"device={storage.device}")

    return __str__


# The size of a storage is that of its sticks, but its content may end earlier. The padding reads as
# zero.
def _reading_padding_as_zero(original: Function) -> Function:
    def _getitem(self: torch.TypedStorage, index: int) -> Any:
        storage = self._untyped_storage
        if storage.device.type == DEVICE_NAME and isinstance(index, int):
            content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            if self._maybe_wrap_index(index) >= _C.content_bytes(content) // self.dtype.itemsize:
                return torch.zeros((), dtype=self.dtype).item()
        return original(self, index)

    return _getitem


PATCH = Patch(
    name="printing",
    targets=(
        PrivateName("torch.Tensor.__repr__", ("tensor_contents",)),
        PrivateName("torch.UntypedStorage.__str__"),
        PrivateName("torch.TypedStorage.__str__"),
        PrivateName("torch.TypedStorage._getitem"),
    ),
    changes="Tensors and storages are copied to the host once and printed from there.",
    reason="PyTorch prints element by element: dozens of copies and kernels for a few values.",
    breaks="Printing is slow, or shows the device in another position than upstream does.",
    apply=_apply,
)

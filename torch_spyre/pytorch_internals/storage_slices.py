"""Slices of storages, whose address is only a handle on a card."""

from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, wrap


def _apply(undo: ExitStack) -> None:
    wrap(undo, torch.UntypedStorage, "__getitem__", _slicing_the_host_image)


def _slicing_the_host_image(original: Function) -> Function:
    def __getitem__(self: torch.UntypedStorage, index: Any) -> Any:
        if not isinstance(index, slice) or self.device.type != DEVICE_NAME:
            return original(self, index)
        start, stop, step = index.indices(self.nbytes())
        if step != 1:
            raise RuntimeError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported"
            )
        return _C.slice_of_storage(self, start, max(stop - start, 0))

    return __getitem__


PATCH = Patch(
    name="storage_slices",
    targets=(PrivateName("torch.UntypedStorage.__getitem__"),),
    changes="A slice of a storage on a card refers to the bytes of the storage's host image.",
    reason="PyTorch adds the start of the slice to the storage's address.",
    breaks="Reading a slice of a storage on a card raises an error.",
    apply=_apply,
)

"""Loading `safetensors` files to a card, and saving from it.

For a card, the file is opened for the CPU and each tensor is moved when it is read, so the host
never holds more than one of them. Saving compares sizes of tensors and storages; a storage on a
card is padded to whole sticks, so the size of its content is used.
"""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import set_attribute


def _apply_to_package(undo: ExitStack) -> None:
    import safetensors

    _replace_safe_open(undo, safetensors)


def _apply_to_torch_module(undo: ExitStack) -> None:
    import safetensors.torch as module

    _replace_safe_open(undo, module)
    set_attribute(undo, module, "storage_size", _content_size(module.storage_size))


def _replace_safe_open(undo: ExitStack, module: Any) -> None:
    # The second module may have imported the replacement from the first.
    if not isinstance(module.safe_open, _SafeOpenType):
        set_attribute(undo, module, "safe_open", _safe_open_for_cards(module.safe_open))


def _content_size(original: Callable[[torch.Tensor], int]) -> Callable[[torch.Tensor], int]:
    def storage_size(tensor: torch.Tensor) -> int:
        is_on_card = tensor.device.type == DEVICE_NAME
        return _C.content_bytes(tensor) if is_on_card else original(tensor)

    return storage_size


class _SafeOpenType(type):
    """The metaclass of the replacement of `safe_open`, a class that cannot be subclassed."""

    _original: type

    def __call__(cls, filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if not _is_card(device) or framework not in ("pt", "torch", "pytorch"):
            return cls._original(filename, framework=framework, device=device, **options)
        opened = cls._original(filename, framework=framework, device="cpu", **options)
        return _CardFile(opened, torch.device(device))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (cls._original, _CardFile))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, (cls._original, _CardFile))


def _safe_open_for_cards(original: type) -> type:
    names = {"_original": original, "__doc__": original.__doc__, "__module__": "safetensors"}
    return _SafeOpenType("safe_open", (), names)


def _is_card(device: object) -> bool:
    if isinstance(device, str):
        return device.split(":")[0] == DEVICE_NAME
    return isinstance(device, torch.device) and device.type == DEVICE_NAME


class _CardFile:
    """An open file whose tensors are moved to the card when they are read."""

    def __init__(self, opened: Any, device: torch.device) -> None:
        self._opened = opened
        self._device = device

    def __enter__(self) -> Self:
        self._opened.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.__exit__(kind, error, traceback)

    def get_tensor(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._opened.get_tensor(name)
        return tensor.to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: self.get_tensor(name) for name in self._opened.keys()}  # noqa: SIM118  (no mapping)

    def get_slice(self, name: str) -> "_CardSlice":
        return _CardSlice(self._opened.get_slice(name), self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)


class _CardSlice:
    def __init__(self, tensor_slice: Any, device: torch.device) -> None:
        self._slice = tensor_slice
        self._device = device

    def __getitem__(self, index: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._slice[index]
        return tensor.to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slice, name)


_REASON = "The library checks device names in its compiled part and rejects ours."
PATCHES = (
    Patch(
        name="safetensors",
        targets=(PrivateName("safetensors.safe_open"),),
        changes="`safe_open` accepts a card as its device.",
        reason=_REASON,
        breaks="`safe_open(file, 'pt', device='spyre')` raises an error.",
        apply=_apply_to_package,
        after_import="safetensors",
    ),
    Patch(
        name="safetensors_torch",
        targets=(
            PrivateName("safetensors.torch.safe_open"),
            PrivateName("safetensors.torch.storage_size", ("tensor",)),
        ),
        changes="`load_file` accepts a card; `save_file` ignores the padding of storages.",
        reason=_REASON,
        breaks="`load_file(file, 'spyre')` raises; `save_file` takes padded tensors for views.",
        apply=_apply_to_torch_module,
        after_import="safetensors.torch",
    ),
)

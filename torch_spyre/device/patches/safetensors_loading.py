"""`safetensors` straight to the card, and from it.

The library checks device names in its compiled part and knows ours not. Where a card is asked for,
the file is opened for the CPU and each tensor is moved as it is read, so the host never holds more
than one of them. Saving compares sizes of tensors and storages; a storage on the card is padded to
whole sticks, so it is asked for the size of its content.
"""

from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, Self

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.import_hook import after_import


def apply() -> None:
    for name in ("safetensors", "safetensors.torch"):
        after_import(name, _patch)


def _patch(module: ModuleType) -> None:
    # A module that imports torch first, and so us, gets its safe_open from the package later on.
    original = vars(module).get("safe_open")
    if original is not None and not isinstance(original, _SafeOpen):
        module.safe_open = _SafeOpen(original)  # type: ignore[attr-defined]
    if "storage_size" in vars(module):
        module.storage_size = _content_size(module.storage_size)  # type: ignore[attr-defined]


def _content_size(original: Callable[[torch.Tensor], int]) -> Callable[[torch.Tensor], int]:
    def storage_size(tensor: torch.Tensor) -> int:
        on_card = tensor.device.type == DEVICE_NAME
        return _C.content_bytes(tensor) if on_card else original(tensor)

    return storage_size


class _SafeOpen:
    """Stands in for the `safe_open` class."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self._original = original

    def __call__(self, filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if not _names_card(device) or framework not in ("pt", "torch", "pytorch"):
            return self._original(filename, framework=framework, device=device, **options)
        opened = self._original(filename, framework=framework, device="cpu", **options)
        return _CardFile(opened, torch.device(device))


def _names_card(device: object) -> bool:
    if isinstance(device, str):
        return device.split(":")[0] == DEVICE_NAME
    return isinstance(device, torch.device) and device.type == DEVICE_NAME


class _CardFile:
    """An open file whose tensors arrive on the card."""

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
        return {name: self.get_tensor(name) for name in self._opened.keys()}  # noqa: SIM118

    def get_slice(self, name: str) -> "_CardSlice":
        return _CardSlice(self._opened.get_slice(name), self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)


class _CardSlice:
    def __init__(self, part: Any, device: torch.device) -> None:
        self._part = part
        self._device = device

    def __getitem__(self, index: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._part[index]
        return tensor.to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

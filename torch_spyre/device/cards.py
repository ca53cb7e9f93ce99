"""Visible cards, the current card, and the properties of cards."""

from dataclasses import dataclass
from types import TracebackType

import torch

from torch_spyre import _C
from torch_spyre.device.index import DeviceLike, device_index
from torch_spyre.dtypes import HALF_DTYPES


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    """Return whether this process has opened the cards."""
    return _C.is_started()


def device_count() -> int:
    """Return the number of visible cards without opening one."""
    return _C.device_count()


def current_device() -> int:
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Make a card the current one of this thread. Raises for a negative index."""
    _C.set_device(device_index(device))


def init() -> None:
    """Open the cards now instead of at their first use."""
    _lazy_init()


def _lazy_init() -> None:
    _C.start_runtime()


def _is_in_bad_fork() -> bool:
    return _C.is_in_bad_fork()


def _is_compiled() -> bool:
    return True


class device:
    """`with torch.spyre.device(1): ...` makes a card current; a negative index or None changes
    nothing."""

    def __init__(self, device: DeviceLike) -> None:
        is_noop = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if is_noop else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        if self.idx >= 0:
            _C.set_device(self.idx)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.idx >= 0:
            _C.set_device(self.prev_idx)


class device_of(device):
    """Makes the card of a tensor current; does nothing for tensors on other devices."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "spyre" else None)


@dataclass(frozen=True)
class SpyreDeviceProperties:
    name: str
    type: str
    index: int
    total_memory: int
    multi_processor_count: int
    scratchpad_bytes: int
    span_bytes: int


def get_device_properties(device: DeviceLike = None) -> SpyreDeviceProperties:
    index = device_index(device)
    return SpyreDeviceProperties(index=index, **_C.get_properties(index))


def get_device_name(device: DeviceLike = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> dict[str, object]:
    """Return the dtypes that a card supports, as `torch.accelerator` does."""
    return torch.accelerator.get_device_capability(device_index(device))


def get_amp_supported_dtype() -> list[torch.dtype]:
    return list(HALF_DTYPES)


def is_bf16_supported() -> bool:
    """Return True: bfloat16 tensors are stored in the card's 16-bit format, as float16 ones."""
    return True


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return False: cards copy to each other, but no kernel reads another card's memory."""
    for card in (device, peer_device):
        device_index(card)  # raises for a card that does not exist
    return False


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work of a card, or of all cards. Raises the errors of queued work."""
    _C.synchronize(None if device is None else device_index(device))


def counters() -> dict[str, int]:
    """Return counters of the work of this process; they never decrease.

    They count work when it is submitted. Launches, device time and DDR bytes are those of kernels
    and of copies, fills and casts on the card.
    """
    return _C.counters()

"""Which cards there are, which one is current, and what they can do."""

from dataclasses import dataclass
from types import TracebackType

import torch

from torch_spyre import _C
from torch_spyre.device.index import DeviceLike, device_index
from torch_spyre.dtypes import HALF_DTYPES


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    """Whether the cards have been opened in this very process."""
    return _C.is_started()


def device_count() -> int:
    """The number of visible cards; opens none."""
    return _C.device_count()


def current_device() -> int:
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Makes a card the current one of this thread. A negative index is an error."""
    _C.set_device(device_index(device))


def init() -> None:
    """Opens the cards now rather than at their first use."""
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
        unchanged = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if unchanged else device_index(device)
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
    """Makes the card of a tensor current; does nothing for tensors elsewhere."""

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
    """What `torch.accelerator.get_device_capability` says: the dtypes a card holds."""
    return torch.accelerator.get_device_capability(device_index(device))


def get_amp_supported_dtype() -> list[torch.dtype]:
    return list(HALF_DTYPES)


def is_bf16_supported() -> bool:
    """Yes: bfloat16 tensors are kept in the card's 16-bit format, as float16 ones are."""
    return True


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Cards copy to each other, but none reads another's memory from a kernel."""
    for card in (device, peer_device):
        device_index(card)  # refuses what is not there
    return False


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all work of a card, or of all cards. Errors of queued work surface here."""
    _C.synchronize(None if device is None else device_index(device))


def counters() -> dict[str, int]:
    """What this process has done so far; every number only grows.

    `launches`, `fallbacks` and copied bytes count when work is submitted. Device time and DDR bytes
    are those of kernels and are final after `synchronize()`.
    """
    return _C.counters()

"""What users pass where a card is meant."""

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME

DeviceLike = torch.device | int | str | None


def device_index(device: DeviceLike) -> int:
    """The card that `device` names: the current one for None or a device without an index."""
    index = _named_index(device)
    count = _C.device_count()
    if not 0 <= index < count:
        _C.check_cards()  # says why, if there are none at all
        raise RuntimeError(f"Device index {index} out of range [0, {count})")
    return index


def _named_index(device: DeviceLike) -> int:
    if device is None:
        return _C.current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    chosen = torch.device(device)
    if chosen.type != DEVICE_NAME:
        raise ValueError(f"expected a {DEVICE_NAME} device, got {chosen}")
    return _C.current_device() if chosen.index is None else chosen.index

"""What users pass where a card is meant."""

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME

DeviceLike = torch.device | int | str | None


def device_index(device: DeviceLike) -> int:
    """The card that `device` names: the current one for None or a device without an index."""
    chosen = card_device(device)
    index = _C.current_device() if chosen.index is None else chosen.index
    check_index(index)
    return index


def card_device(device: DeviceLike) -> torch.device:
    """`device` as PyTorch has it, without an index if it names none; refuses other devices."""
    if device is None:
        return torch.device(DEVICE_NAME)
    if isinstance(device, int) and not isinstance(device, bool):
        check_index(device)
        return torch.device(DEVICE_NAME, device)
    if not isinstance(device, (str, torch.device)):
        kind = type(device).__name__
        raise TypeError(f"expected a device, its name, the index of a card or None, got a {kind}")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise RuntimeError(
            f"{device!r} is no device: a card is '{DEVICE_NAME}' or '{DEVICE_NAME}:<index>'"
        ) from error
    if chosen.type != DEVICE_NAME:
        raise ValueError(f"expected a {DEVICE_NAME} device, got {chosen}")
    return chosen


def check_index(index: int) -> None:
    count = _C.device_count()
    if not 0 <= index < count:
        _C.check_cards()  # says why, if there are none at all
        raise RuntimeError(f"Device index {index} out of range [0, {count})")

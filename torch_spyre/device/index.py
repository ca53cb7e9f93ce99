"""Devices as users pass them: an index, a name, a `torch.device` or None."""

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME

DeviceLike = torch.device | int | str | None


def device_index(device: DeviceLike) -> int:
    """Return the index of a card: the current one for None or a device without an index."""
    card = card_device(device)
    index = _C.current_device() if card.index is None else card.index
    check_index(index)
    return index


def card_device(device: DeviceLike) -> torch.device:
    """Return a `torch.device`, without an index if `device` has none. Raises for other devices."""
    if device is None:
        return torch.device(DEVICE_NAME)
    if isinstance(device, int) and not isinstance(device, bool):
        check_index(device)
        return torch.device(DEVICE_NAME, device)
    if not isinstance(device, (str, torch.device)):
        kind = type(device).__name__
        raise TypeError(f"expected a device, its name, the index of a card or None, got a {kind}")
    try:
        card = torch.device(device)
    except RuntimeError as error:
        raise RuntimeError(
            f"{device!r} is not a device: a card is '{DEVICE_NAME}' or '{DEVICE_NAME}:<index>'"
        ) from error
    if card.type != DEVICE_NAME:
        raise ValueError(f"expected a {DEVICE_NAME} device, got {card}")
    return card


def check_index(index: int) -> None:
    """Raise if no visible card has this index."""
    count = _C.device_count()
    if not 0 <= index < count:
        _C.check_cards()  # raises with the reason if there are no cards
        raise RuntimeError(f"Device index {index} out of range [0, {count})")

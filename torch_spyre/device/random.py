"""Seeds and states of the cards' default random generators."""

from collections.abc import Iterable

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.index import DeviceLike, device_index


def manual_seed(seed: int, device: DeviceLike = None) -> None:
    """Seed the generator of a card, by default the current one."""
    _C._get_default_generator(device_index(device)).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for index in range(_C.device_count()):
        manual_seed(seed, index)


def seed() -> None:
    """Seed the current card's generator from the operating system."""
    _C._get_default_generator(_C.current_device()).seed()


def seed_all() -> None:
    """Seed all cards, but not the CPU, with one seed from the operating system."""
    if _C.device_count() > 0:
        manual_seed_all(_C._get_default_generator(0).seed())


def initial_seed(device: DeviceLike = DEVICE_NAME) -> int:
    return _C.initial_seed(device_index(device))


def get_rng_state(device: DeviceLike = DEVICE_NAME) -> torch.Tensor:
    return _C.get_rng_state(device_index(device))


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = DEVICE_NAME) -> None:
    _C.set_rng_state(new_state, device_index(device))


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(_C.device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)

"""`flex_attention`: PyTorch takes it on the devices it lists, though its ops run on any.

On the card it is computed as its definition says, op by op: nothing fuses the user's function.
"""

from types import ModuleType

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.import_hook import after_import
from torch_spyre.device.patches.wrapping import Function, wrap


def apply() -> None:
    after_import("torch.nn.attention.flex_attention", _accept)


def _accept(module: ModuleType) -> None:
    wrap(module, "_validate_device", _of_the_card_too)


def _of_the_card_too(original: Function) -> Function:
    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != DEVICE_NAME:
            original(query, key, value)

    return _validate_device

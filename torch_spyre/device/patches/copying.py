"""deepcopy and pickle, which look at storages: a layout of the tensor's own is not the storage's.

Generators are here as well: PyTorch also saves an offset, which ours have not.
"""

import copy
import copyreg
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.patches.wrapping import Function, is_spyre, wrap


def apply() -> None:
    wrap(torch.Tensor, "__deepcopy__", _deepcopy_of_own_layout)
    wrap(torch.nn.Parameter, "__deepcopy__", _deepcopy_of_parameter)
    wrap(torch.Tensor, "__reduce_ex__", _pickle_of_own_layout)
    copyreg.pickle(torch.Generator, _reduce_generator)


def _deepcopy_of_own_layout(original: Function) -> Function:
    def __deepcopy__(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        # PyTorch refuses to copy a part of a graph.
        if not is_spyre(self) or not _C.has_own_layout(self) or not self.is_leaf:
            result: torch.Tensor = original(self, memo)
            return result
        if id(self) in memo:
            found: torch.Tensor = memo[id(self)]
            return found
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        # Of self, not of a temporary: the ids in a memo must be those of objects that live on.
        memo[id(self)] = copied
        copied.grad = copy.deepcopy(self.grad, memo)
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    return __deepcopy__


# PyTorch clones parameters, which gives the default layout; a linear layer's weight has another.
def _deepcopy_of_parameter(original: Function) -> Function:
    def __deepcopy__(self: torch.nn.Parameter, memo: dict[int, Any]) -> torch.nn.Parameter:
        copied: torch.nn.Parameter = original(self, memo)
        if is_spyre(self):
            layout = _C.get_spyre_tensor_layout(self)
            if _C.get_spyre_tensor_layout(copied) != layout:
                copied.data = _C.to_with_layout(self.detach(), layout)
        return copied

    return __deepcopy__


def _pickle_of_own_layout(original: Function) -> Function:
    def __reduce_ex__(self: torch.Tensor, protocol: int) -> Any:
        if is_spyre(self) and _C.has_own_layout(self):
            self = self.detach().clone().requires_grad_(self.requires_grad)
        return original(self, protocol)

    return __reduce_ex__


def _reduce_generator(generator: torch.Generator) -> Any:
    if generator.device.type != DEVICE_NAME:
        return generator.__reduce__()
    return _rebuild_generator, (str(generator.device), generator.get_state())


def _rebuild_generator(device: str, state: torch.Tensor) -> torch.Generator:
    return torch.Generator(device).set_state(state)

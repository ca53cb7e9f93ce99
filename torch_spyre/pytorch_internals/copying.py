"""`copy.deepcopy` and pickle of tensors whose layout differs from their storage's, and of
generators."""

import copy
import copyreg
from contextlib import ExitStack
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.pytorch_internals.records import Patch, PrivateName
from torch_spyre.pytorch_internals.replacement import Function, is_spyre, update_table, wrap


def _apply_to_tensors(undo: ExitStack) -> None:
    wrap(undo, torch.Tensor, "__deepcopy__", _deepcopy_of_own_layout)
    wrap(undo, torch.nn.Parameter, "__deepcopy__", _deepcopy_of_parameter)
    wrap(undo, torch.Tensor, "__reduce_ex__", _pickle_of_own_layout)


def _apply_to_generators(undo: ExitStack) -> None:
    update_table(undo, copyreg.dispatch_table, {torch.Generator: _reduce_generator})


def _deepcopy_of_own_layout(original: Function) -> Function:
    def __deepcopy__(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        # PyTorch raises an error for tensors inside an autograd graph.
        if not is_spyre(self) or not _C.has_own_layout(self) or not self.is_leaf:
            result: torch.Tensor = original(self, memo)
            return result
        if id(self) in memo:
            previous_copy: torch.Tensor = memo[id(self)]
            return previous_copy
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        # The id of self, not of a temporary: objects whose ids are in a memo must stay alive.
        memo[id(self)] = copied
        copied.grad = copy.deepcopy(self.grad, memo)
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    return __deepcopy__


# PyTorch clones parameters, which yields the default layout; weights of linear layers have another.
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


PATCHES = (
    Patch(
        name="tensor_copies",
        targets=(
            PrivateName("torch.Tensor.__deepcopy__", ("memo",)),
            PrivateName("torch.nn.Parameter.__deepcopy__", ("memo",)),
            PrivateName("torch.Tensor.__reduce_ex__", ("proto",)),
        ),
        changes="Copies and pickles of a tensor preserve its own device layout.",
        reason="PyTorch copies the storage, which has one layout for all tensors on it.",
        breaks="`copy.deepcopy` and `torch.save` of tensors with a device_layout lose it or fail.",
        apply=_apply_to_tensors,
    ),
    Patch(
        name="generator_pickles",
        targets=(PrivateName("torch.Generator.__reduce__"),),
        changes="Generators of a card can be pickled.",
        reason="PyTorch saves an offset, which only CUDA generators have.",
        breaks="Pickling a generator of a card raises an error.",
        apply=_apply_to_generators,
    ),
)

"""Binds the arguments of one call of a kernel: arrays on the host, and tensors on a card."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from torch_spyre.backend.argument_analysis import is_written
from torch_spyre.backend.arrays import ArrayArgument, copy_to_card, element_type_of
from torch_spyre.backend.device_arrays import DeviceArray, bind_device_tensor
from torch_spyre.backend.program.instructions import Argument
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import KernelArgumentError

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Function


@contextmanager
def on_card_of(kernel: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Make the card that holds the tensors the current one; raise if they are on several."""
    tensors = {
        name: value
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and value.device.type != "cpu"
    }
    for name, tensor in tensors.items():
        if tensor.device.type != DEVICE_NAME:
            raise KernelArgumentError(
                kernel,
                f"{name} is on {tensor.device}; pass an array on the host or a tensor on "
                f"{DEVICE_NAME}",
            )
    cards = {name: tensor.device for name, tensor in tensors.items()}
    if len(set(cards.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in cards.items())
        raise KernelArgumentError(kernel, f"the tensors are on several cards: {places}")
    if not cards:
        yield
        return
    with torch.get_device_module(DEVICE_NAME).device(next(iter(cards.values()))):
        yield


class ArgumentBinder:
    """Binds arrays to the arguments of a kernel; `write_back` completes what it has written."""

    def __init__(self, function: "Function") -> None:
        self.kernel = function.name
        names = (argument.name for argument in function.arguments)
        values = zip(names, function.operation.args, strict=True)
        self._written = {name for name, value in values if is_written(value)}
        self._names = {argument.name for argument in function.arguments}
        self._arrays: dict[tuple[Any, ...], DeviceArray] = {}
        self._to_write: list[DeviceArray] = []

    def bind(self, argument: Argument, value: Any) -> ArrayArgument | DeviceArray:
        """Return the device memory of an array; raise if the kernel cannot access the array."""
        if not isinstance(value, torch.Tensor) or value.device.type != DEVICE_NAME:
            return self._copy_host_array(argument, value)
        # Views at fixed addresses have names of their own, and may be written.
        is_written = argument.name in self._written or argument.name not in self._names
        if is_written:
            self._check_writable(argument, value)
        array = self._bind_once(argument, value)
        if is_written:
            self._to_write.append(array)
        return array

    def _bind_once(self, argument: Argument, tensor: torch.Tensor) -> DeviceArray:
        """Bind a tensor; one that was bound before has one copy, so that arguments alias."""
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
        key = (*place, tensor.shape, tensor.stride(), tensor.dtype, argument.type)
        if key in self._arrays and not argument.has_shape:
            return self._arrays[key]
        array = bind_device_tensor(self.kernel, argument, tensor)
        if key in self._arrays and not array.is_direct:
            return self._arrays[key]
        self._arrays[key] = array
        return array

    def write_back(self) -> None:
        """Copy to tensors what the kernel wrote to copies of them, and tell autograd."""
        for array in self._to_write:
            array.write_back()
            if not array.tensor.is_inference():
                torch.autograd.graph.increment_version(array.tensor)

    def _check_writable(self, argument: Argument, tensor: torch.Tensor) -> None:
        problem = None
        if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
            problem = "is a leaf that requires grad; call detach(), or use torch.no_grad()"
        elif any(
            size > 1 and stride == 0
            for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        ):
            problem = "is expanded: several of its elements are one in memory; call clone()"
        if problem is not None:
            raise KernelArgumentError(
                self.kernel, f"the kernel writes {argument.name} in place, and it {problem}"
            )

    def _copy_host_array(self, argument: Argument, value: Any) -> ArrayArgument:
        """Copy an array to the card; raise if the kernel's view has another dtype or shape."""
        if element_type_of(value) is not argument.type:
            raise KernelArgumentError(
                self.kernel,
                f"{argument.name} is an array of {value.dtype}, and the kernel's view of it "
                f"holds {argument.type.name.lower()}; convert the array first",
            )
        shape = tuple(value.shape)
        if argument.has_shape and shape != argument.shape:
            raise KernelArgumentError(
                self.kernel,
                f"{argument.name} has shape {shape}, and the kernel's view of it "
                f"{argument.shape}; pass an array of that shape",
            )
        return copy_to_card(argument.name, argument.type, value)

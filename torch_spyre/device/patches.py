"""Every change to PyTorch's own Python classes, each with its reason.

PyTorch has no hook for these. All are harmless for tensors elsewhere: they look at the device first
and hand over to the original.
"""

import copyreg
import re
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device import module_loading, processes, safetensors_loading
from torch_spyre.device.import_hook import after_import
from torch_spyre.errors import HostAccessError

Function = Callable[..., Any]
_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)
# PyTorch builds these from their parts without asking the device.
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def apply() -> None:
    if getattr(torch.Tensor, "_spyre_tensor_patched", False):
        return
    torch.Tensor._spyre_tensor_patched = True  # type: ignore[attr-defined]
    torch.Tensor.device_tensor_layout = _device_tensor_layout  # type: ignore[attr-defined]
    for owner, name, wrap in (
        (torch.Tensor, "__repr__", _printing_once_copied),
        (torch.Tensor, "to", _to_with_layout),
        (torch, "empty", _empty_with_layout),
        (torch.Tensor, "__deepcopy__", _deepcopy_of_own_layout),
        (torch.nn.Parameter, "__deepcopy__", _deepcopy_of_parameter),
        (torch.Tensor, "__reduce_ex__", _pickle_of_own_layout),
        (torch.Tensor, "__dlpack_device__", _refusing_host_access("__dlpack_device__")),
        (torch.Tensor, "__dlpack__", _refusing_host_access("__dlpack__")),
        (torch.utils.dlpack, "to_dlpack", _refusing_host_access("to_dlpack")),
        (torch, "to_dlpack", _refusing_host_access("to_dlpack")),
        (torch.amp.GradScaler, "unscale_", _unscaling_in_float32),
        (torch.UntypedStorage, "__str__", _storage_printing_once_copied),
        (torch.TypedStorage, "__str__", _storage_printing_once_copied),
        (torch.TypedStorage, "_getitem", _reading_padding_as_zero),
        (torch.UntypedStorage, "_write_file", _writing_the_host_image),
        (torch.UntypedStorage, "_set_from_file", _reading_a_host_image),
    ):
        _wrap(owner, name, wrap)
    copyreg.pickle(torch.Generator, _reduce_generator)
    # A priority of our own, before the built-in ones.
    torch.serialization.register_package(19, lambda storage: None, _restore_empty_storage)
    module_loading.apply()
    processes.apply()
    safetensors_loading.apply()


def _wrap(owner: Any, name: str, wrap: Callable[[Function], Function]) -> None:
    original = getattr(owner, name)
    wrapper = wrap(original)
    # Not functools.wraps: torch's built-ins refuse some attributes it copies.
    wrapper.__name__ = name
    wrapper.__doc__ = original.__doc__
    setattr(owner, name, wrapper)


def is_spyre(tensor: object) -> bool:
    """A real tensor on a card: not a fake one, nor one that another tool has wrapped."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == DEVICE_NAME  # type: ignore[attr-defined]
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # type: ignore[arg-type]
    )


def _device_tensor_layout(self: torch.Tensor) -> _C.SpyreTensorLayout | None:
    """The layout in device memory; None for tensors that are not on a card."""
    return _C.get_spyre_tensor_layout(self) if is_spyre(self) else None


# PyTorch formats element by element: dozens of copies for a few numbers.
def _printing_once_copied(original: Function) -> Function:
    def __repr__(self: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        if not is_spyre(self) or tensor_contents is not None:
            return str(original(self, tensor_contents=tensor_contents))
        if self.numel() == 0:
            return _device_last(original(self))
        try:
            host = self.detach().cpu()
        except RuntimeError as error:
            shape = tuple(self.shape)
            return f"SpyreTensor(shape={shape}, dtype={self.dtype}, device={self.device}): {error}"
        contents = torch._tensor_str._tensor_str(host, len("tensor("))
        text = str(original(self, tensor_contents=contents))
        end = text.rindex(contents) + len(contents)
        return text[:end] + _device_last(text[end:])

    return __repr__


# Upstream prints the CPU copy with the device behind size and dtype; scripts compare the text.
_DEVICE_FIRST = re.compile(r"(device='[^']*')((?:,\s+(?:size=\([^)]*\)|dtype=[\w.]+))+)")


def _device_last(suffixes: str) -> str:
    return _DEVICE_FIRST.sub(lambda found: found[2].lstrip(", \n") + ", " + found[1], suffixes)


# `device_layout=` is not in the signature, which is C++.
def _to_with_layout(original: Function) -> Function:
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        layout = kwargs.pop("device_layout", None)
        if layout is None:
            layout = module_loading.layout_for(self, args, kwargs)
        if layout is None:
            result: torch.Tensor = original(self, *args, **kwargs)
            if result.layout in _COMPRESSED and result.device.type == DEVICE_NAME:
                raise NotImplementedError(
                    f"Non strided layout not supported: spyre holds no {result.layout} tensors"
                )
            return result
        return _move_to_layout(original, self, layout, args, kwargs)

    return to


def _move_to_layout(
    original: Function,
    tensor: torch.Tensor,
    layout: _C.SpyreTensorLayout,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> torch.Tensor:
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(
        *args, **_without_copy(kwargs)
    )
    del non_blocking, memory_format
    if device is not None and device.type != DEVICE_NAME:
        raise ValueError(f"device_layout needs a {DEVICE_NAME} device, got {device}")
    if not isinstance(layout, _C.SpyreTensorLayout):
        raise TypeError(f"device_layout must be a SpyreTensorLayout, got {type(layout).__name__}")
    source = tensor if dtype in (None, tensor.dtype) else original(tensor, dtype)
    here = source.device if source.device.type == DEVICE_NAME else None
    target = here if device is None or (here is not None and device.index is None) else device
    unchanged = here is not None and target == here and _C.get_spyre_tensor_layout(source) == layout
    if unchanged and not kwargs.get("copy", False):
        return source
    moved = _C.to_with_layout(source.detach(), layout, target)
    return moved.requires_grad_(source.requires_grad and source.is_leaf)


def _without_copy(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "copy"}


# The card has no channels_last. Ops that PyTorch composes need such strides all the same, and the
# dispatcher cannot tell who calls, so the refusal is here.
def _refuse_channels_last(memory_format: torch.memory_format, device: Any) -> None:
    if torch.device(device or torch.get_default_device()).type == DEVICE_NAME:
        name = "ChannelsLast" if memory_format is torch.channels_last else "ChannelsLast3d"
        raise RuntimeError(f"Spyre backend only supports contiguous memory format, got: {name}")


def _empty_with_layout(original: Function) -> Function:
    # `with torch.device(...)` knows the factories by identity.
    after_import("torch.utils._device", lambda module: module._device_constructors().add(original))

    def empty(*size: Any, device_layout: Any = None, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("memory_format") in _CHANNELS_LAST:
            _refuse_channels_last(kwargs["memory_format"], kwargs.get("device"))
        if device_layout is None:
            result: torch.Tensor = original(*size, **kwargs)
            return result
        as_one = len(size) == 1 and not isinstance(size[0], int)
        shape = kwargs.pop("size", size[0] if as_one else size)
        device = torch.device(kwargs.pop("device", None) or DEVICE_NAME)
        if device.type != DEVICE_NAME:
            raise ValueError(f"device_layout needs a {DEVICE_NAME} device, got {device}")
        requires_grad = kwargs.pop("requires_grad", False)
        tensor = _C.empty_with_layout(list(shape), device_layout, device=device, **kwargs)
        return tensor.requires_grad_(requires_grad)

    return empty


# A layout of the tensor's own is not the storage's, which is what deepcopy and pickle look at.
def _deepcopy_of_own_layout(original: Function) -> Function:
    def __deepcopy__(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not is_spyre(self) or not _C.has_own_layout(self):
            result: torch.Tensor = original(self, memo)
            return result
        if id(self) in memo:
            found: torch.Tensor = memo[id(self)]
            return found
        copied = self.detach().clone()
        memo[id(self)] = copied
        return copied.requires_grad_(self.requires_grad)

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


# The inverse of the scale is taken in float64, which the card has not; float32 divides exactly
# enough, as on other devices without float64.
def _unscaling_in_float32(original: Function) -> Function:
    def unscale_(self: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        scale = self._scale
        if scale is None or scale.device.type != DEVICE_NAME:
            original(self, optimizer)
            return
        self._scale = _ScaleInFloat32(scale)  # type: ignore[assignment]
        try:
            original(self, optimizer)
        finally:
            self._scale = scale

    return unscale_


class _ScaleInFloat32:
    def __init__(self, scale: torch.Tensor) -> None:
        self.device = scale.device
        self.reciprocal = scale.reciprocal

    def double(self) -> "_ScaleInFloat32":
        return self


def _pickle_of_own_layout(original: Function) -> Function:
    def __reduce_ex__(self: torch.Tensor, protocol: int) -> Any:
        if is_spyre(self) and _C.has_own_layout(self):
            self = self.detach().clone().requires_grad_(self.requires_grad)
        return original(self, protocol)

    return __reduce_ex__


# PyTorch hands the device's handle out as if it were host memory.
def _refusing_host_access(call: str) -> Callable[[Function], Function]:
    def wrap(original: Function) -> Function:
        def refuse(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if isinstance(tensor, torch.Tensor) and tensor.device.type == DEVICE_NAME:
                raise HostAccessError(call, str(tensor.device))
            return original(tensor, *args, **kwargs)

        return refuse

    return wrap


# PyTorch reads storages element by element too, and a read of one byte copies them whole.
def _storage_printing_once_copied(original: Function) -> Function:
    def __str__(self: torch.UntypedStorage | torch.TypedStorage) -> str:
        storage = self._untyped_storage if isinstance(self, torch.TypedStorage) else self
        if storage.device.type != DEVICE_NAME:
            return str(original(self))
        host = storage.cpu()
        shown = self._new_wrapped_storage(host) if isinstance(self, torch.TypedStorage) else host
        values, line, description = str(original(shown)).rpartition("\n")
        return values + line + description.replace("device=cpu", f"device={storage.device}")

    return __str__


# A storage is as long as its sticks, but a tensor on it ends where the content does. The rest of
# the host image is zero.
def _reading_padding_as_zero(original: Function) -> Function:
    def _getitem(self: torch.TypedStorage, index: int) -> Any:
        storage = self._untyped_storage
        if storage.device.type == DEVICE_NAME and isinstance(index, int):
            content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            if self._maybe_wrap_index(index) >= _C.content_bytes(content) // self.dtype.itemsize:
                return torch.zeros((), dtype=self.dtype).item()
        return original(self, index)

    return _getitem


# PyTorch writes what lies at the storage's address, which on a card is only a handle.
def _writing_the_host_image(original: Function) -> Function:
    def _write_file(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> None:
        original(self.cpu() if self.device.type == DEVICE_NAME else self, *args, **kwargs)

    return _write_file


# The same, reading: PyTorch's old file format fills storages after their tensors were made, so ours
# are tiled by then and may have another size than the file's.
def _reading_a_host_image(original: Function) -> Function:
    def _set_from_file(
        self: torch.UntypedStorage,
        file: Any,
        offset: int | None,
        is_real: bool,
        element_size: int,
    ) -> None:
        if self.device.type != DEVICE_NAME:
            original(self, file, offset, is_real, element_size)
            return
        start = file.tell() if offset is None else offset
        file.seek(start)
        count = int.from_bytes(file.read(8), "little")
        file.seek(start)
        host = torch.UntypedStorage(count * element_size)
        original(host, file, offset, is_real, element_size)
        common = min(host.nbytes(), self.nbytes())
        target = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)
        target[:common].copy_(torch.empty(0, dtype=torch.uint8).set_(host)[:common])

    return _set_from_file


# PyTorch's old file format makes storages first and fills them later. In between they are tiled,
# which must not convert whatever the memory holds.
def _restore_empty_storage(storage: Any, location: str) -> Any:
    is_ours = location.split(":")[0] == DEVICE_NAME
    if not is_ours or "_torch_load_uninitialized" not in vars(storage):
        return None
    empty = torch.UntypedStorage(storage.nbytes(), device=location)
    torch.empty(0, dtype=torch.uint8, device=location).set_(empty).zero_()
    return empty


# PyTorch also saves an offset, which our generators have not.
def _reduce_generator(generator: torch.Generator) -> Any:
    if generator.device.type != DEVICE_NAME:
        return generator.__reduce__()
    return _rebuild_generator, (str(generator.device), generator.get_state())


def _rebuild_generator(device: str, state: torch.Tensor) -> torch.Generator:
    return torch.Generator(device).set_state(state)

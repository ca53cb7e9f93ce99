"""Makes the card known to Dynamo and Inductor. Called when the first graph or op is compiled."""

from functools import cache
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    init_backend_registration,
    register_backend_for_device,
    register_device_op_overrides,
)

from torch_spyre import _C
from torch_spyre._inductor import config
from torch_spyre._inductor.fx_passes import MarkFallbacks
from torch_spyre._inductor.scheduling import SpyreScheduling
from torch_spyre._inductor.wrapper import SpyreWrapper
from torch_spyre.constants import DEVICE_NAME


class SpyreInterface(DeviceInterface):
    """The device interface that Dynamo uses."""

    device = torch.get_device_module(DEVICE_NAME).device
    Event = torch.get_device_module(DEVICE_NAME).Event
    Stream = torch.get_device_module(DEVICE_NAME).Stream

    class Worker:
        @staticmethod
        def set_device(device: int) -> None:
            _C.set_device(device)

        @staticmethod
        def current_device() -> int:
            return _C.current_device()

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return torch.get_device_module(DEVICE_NAME).get_device_properties(device)

    current_device = staticmethod(_C.current_device)
    device_count = staticmethod(_C.device_count)

    @staticmethod
    def set_device(device: Any) -> None:
        torch.get_device_module(DEVICE_NAME).set_device(device)

    @staticmethod
    def exchange_device(device: int) -> int:
        previous = _C.current_device()
        _C.set_device(device)
        return previous

    maybe_exchange_device = exchange_device

    @staticmethod
    def is_available() -> bool:
        available: bool = torch.get_device_module(DEVICE_NAME).is_available()
        return available

    @staticmethod
    def current_stream() -> Any:
        return torch.get_device_module(DEVICE_NAME).current_stream()

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return 0

    @staticmethod
    def synchronize(device: Any = None) -> None:
        _C.synchronize(device)

    @staticmethod
    def get_device_properties(device: Any = None) -> Any:
        return torch.get_device_module(DEVICE_NAME).get_device_properties(device)

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return dtype not in (torch.float64, torch.complex64, torch.complex128)

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        allocated: int = torch.get_device_module(DEVICE_NAME).memory_allocated(device)
        return allocated


class SpyreOpOverrides(DeviceOpOverrides):
    """Lines that wrappers contain: launches go to the current stream, so there is little to say."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = lambda index: 0"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"


@cache
def register() -> None:
    init_backend_registration()
    register_interface_for_device(DEVICE_NAME, SpyreInterface)
    for index in range(_C.device_count()):
        register_interface_for_device(f"{DEVICE_NAME}:{index}", SpyreInterface)
    register_device_op_overrides(DEVICE_NAME, SpyreOpOverrides())
    register_backend_for_device(
        DEVICE_NAME,
        SpyreScheduling,
        SpyreWrapper,
        device_custom_pass=MarkFallbacks(),
        device_custom_config=config,  # type: ignore[arg-type]  # a module of that class
    )

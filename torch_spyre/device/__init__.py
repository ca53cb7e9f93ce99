"""`torch.spyre`: the device's Python interface, in the shape of `torch.cuda`.

PyTorch registers this module under the name `torch.spyre`. Names of `torch_spyre._C` that are not
listed here are attributes of it as well.
"""

from typing import Any

import torch  # noqa: F401  (first: our libraries need PyTorch's, and it registers this module)

from torch_spyre import _C
from torch_spyre._C import (
    DataFormats,
    ElementArrangement,
    SpyreTensorLayout,
    get_device_dtype,
    get_downcast_warning,
    set_downcast_warning,
)
from torch_spyre.device import amp, memory
from torch_spyre.device.cards import (
    SpyreDeviceProperties,
    can_device_access_peer,
    counters,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from torch_spyre.device.cards import _is_compiled as _is_compiled
from torch_spyre.device.cards import _is_in_bad_fork as _is_in_bad_fork
from torch_spyre.device.cards import _lazy_init as _lazy_init
from torch_spyre.device.diagnostics import get_diagnostic_report
from torch_spyre.device.memory import (
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_spyre.device.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_spyre.device.scratchpad import scratchpad_stats
from torch_spyre.device.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from torch_spyre.ops.fallback_policy import fallback

__all__ = [
    "DataFormats",
    "ElementArrangement",
    "Event",
    "SpyreDeviceProperties",
    "SpyreTensorLayout",
    "Stream",
    "amp",
    "can_device_access_peer",
    "counters",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_dtype",
    "get_device_name",
    "get_device_properties",
    "get_diagnostic_report",
    "get_downcast_warning",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "scratchpad_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_downcast_warning",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # torch.utils.checkpoint reads it before it saves generator states
        return is_initialized()
    if name.startswith("__") or name not in _C.__dict__:
        raise AttributeError(f"module 'torch.spyre' has no attribute {name!r}")
    return _C.__dict__[name]

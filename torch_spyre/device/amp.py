"""`torch.spyre.amp`: the deprecated names of `torch.cuda.amp` for automatic mixed precision."""

from typing import Any

import torch
from typing_extensions import deprecated

from torch_spyre.constants import DEVICE_NAME

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class GradScaler(torch.amp.GradScaler):
    """See `torch.amp.GradScaler`, whose first argument is the device."""

    @deprecated(
        "`torch.spyre.amp.GradScaler(args...)` is deprecated. "
        "Please use `torch.amp.GradScaler('spyre', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            DEVICE_NAME,
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )


class autocast(torch.amp.autocast):  # noqa: N801  (PyTorch's name)
    """See `torch.amp.autocast`, whose first argument is the device."""

    @deprecated(
        "`torch.spyre.amp.autocast(args...)` is deprecated. "
        "Please use `torch.amp.autocast('spyre', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__(DEVICE_NAME, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


@deprecated(
    "`torch.spyre.amp.custom_fwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_fwd(args..., device_type='spyre')` instead.",
    category=FutureWarning,
)
def custom_fwd(fwd: Any = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """See `torch.amp.custom_fwd`, which has the device as an argument."""
    return torch.amp.custom_fwd(fwd, device_type=DEVICE_NAME, cast_inputs=cast_inputs)


@deprecated(
    "`torch.spyre.amp.custom_bwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_bwd(args..., device_type='spyre')` instead.",
    category=FutureWarning,
)
def custom_bwd(bwd: Any) -> Any:
    """See `torch.amp.custom_bwd`, which has the device as an argument."""
    return torch.amp.custom_bwd(bwd, device_type=DEVICE_NAME)

"""Dispatch keys while an eager op is traced."""

from typing import Any

import torch

_TRACING_KEYS = (
    torch._C.DispatchKey.Functionalize,
    torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode,
    torch._C.DispatchKey.FuncTorchDynamicLayerBackMode,
    torch._C.DispatchKey.Python,
    torch._C.DispatchKey.PythonTLSSnapshot,
)


def default_dispatch_keys() -> Any:
    """Return a context manager under which calls dispatch as if made by the user.

    Dispatch modes call kernels with keys excluded that tracing needs.
    """
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in _TRACING_KEYS:
        excluded = excluded.remove(key)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)

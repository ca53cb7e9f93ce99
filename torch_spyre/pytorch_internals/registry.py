"""All patches, and the two occasions on which they are applied."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch

from torch_spyre.errors import PytorchChangedError
from torch_spyre.pytorch_internals import (
    compile_fx,
    computation_dtypes,
    constant_folding,
    copying,
    default_backend,
    fake_strides,
    flex_attention,
    grad_scaler,
    host_access,
    layout_arguments,
    loop_ops,
    loop_origins,
    lowering_tables,
    module_loading,
    opcheck,
    optimizers,
    printing,
    processes,
    safetensors_loading,
    skipped_modules,
    storage_files,
    storage_slices,
    torch_logs,
)
from torch_spyre.pytorch_internals.check import exists
from torch_spyre.pytorch_internals.import_hook import after_import
from torch_spyre.pytorch_internals.records import Lifetime, Patch

# Applied in this order. Each looks at the device first and leaves other devices alone.
PATCHES: tuple[Patch, ...] = (
    torch_logs.PATCH,
    printing.PATCH,
    layout_arguments.PATCH,
    *copying.PATCHES,
    storage_files.PATCH,
    storage_slices.PATCH,
    host_access.PATCH,
    grad_scaler.PATCH,
    optimizers.PATCH,
    module_loading.PATCH,
    processes.PATCH,
    opcheck.PATCH,
    *safetensors_loading.PATCHES,
    flex_attention.PATCH,
    default_backend.PATCH,
    skipped_modules.PATCH,
    fake_strides.PATCH,
    compile_fx.PATCH,
    computation_dtypes.PATCH,
    lowering_tables.PATCH,
    loop_ops.PATCH,
    loop_origins.PATCH,
    constant_folding.PATCH,
)
_PROCESS_PATCHES = [patch for patch in PATCHES if patch.lifetime is Lifetime.PROCESS]
_COMPILATION_PATCHES = [patch for patch in PATCHES if patch.lifetime is Lifetime.COMPILATION]


def apply_to_process() -> ExitStack:
    """Apply the patches that stay for the life of the process. Closing the result undoes them."""
    undo = ExitStack()
    for patch in _PROCESS_PATCHES:
        if patch.after_import:
            after_import(undo, patch.after_import, partial(_apply, patch, undo))
        else:
            _apply(patch, undo)
    return undo


@contextmanager
def applied_while_compiling() -> Iterator[None]:
    """Apply the patches that a compilation for the card needs, and undo them afterwards."""
    with ExitStack() as undo:
        for patch in _COMPILATION_PATCHES:
            _apply(patch, undo)
        yield


def _apply(patch: Patch, undo: ExitStack) -> None:
    for target in patch.targets:
        if not exists(target):
            raise PytorchChangedError(target.path, f"patch {patch.name!r}", torch.__version__)
    patch.apply(undo)

"""Register `spyre` as a PyTorch device. Called once, by autoload."""

import atexit
import gc
import sys

import torch

from torch_spyre import _C, knobs
from torch_spyre.backend.launch import launch_options
from torch_spyre.constants import DEVICE_NAME


def register() -> None:
    import torch_spyre.device as module
    from torch_spyre.device import config, diagnostics, memory_history, runtime_log
    from torch_spyre.ops import (
        eager,
        fallbacks,
        grouped_mm,
        launch_site,
        recurrent,
        transformer,
    )
    from torch_spyre.pytorch_internals.autograd_threads import wait_for_backward_threads
    from torch_spyre.pytorch_internals.registry import apply_to_process

    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _C._set_config_source(config.enumerate_cards, config.runtime_config, config.warn_unmonitored)
    _C._set_fallback_warning(fallbacks.warn)
    _C._set_fallback_error(fallbacks.reject)
    _C._set_failure_hook(diagnostics.report_kernel_error)
    runtime_log.follow_level()
    launch_site.register()
    _C._set_garbage_collector(gc.collect)
    _C._set_out_of_memory_report(memory_history.describe_memory)
    _C._set_scratchpad_samples(_scratchpad_samples)
    _renew_launch_options()
    knobs.on_override(_renew_launch_options)
    _C._set_stores_unsupported_dtypes(knobs.execution.unsupported_dtype == "store")
    knobs.on_override(_follow_unsupported_dtype_knob)
    _C.set_downcast_warning(knobs.execution.downcast_warning)
    apply_to_process()
    recurrent.register()
    transformer.register()
    eager.register()
    grouped_mm.register()
    # The threads of streams must be idle when the interpreter exits.
    atexit.register(_finish_work)
    atexit.register(wait_for_backward_threads)
    # Stacks of Python frames cannot be captured while the interpreter shuts down.
    atexit.register(_C._stop_memory_history)


def _finish_work() -> None:
    """Wait for queued work, or stop it if an interrupt ends the program."""
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        _C._interrupt_work()
    _C._finish_work()


def _follow_unsupported_dtype_knob() -> None:
    stores = knobs.execution.unsupported_dtype == "store"
    if stores == _C._stores_unsupported_dtypes():
        return
    from torch_spyre.ops import eager, plans

    _C._set_stores_unsupported_dtypes(stores)
    eager.renew_kernels()
    plans.clear_all_plans()


def _copy_cost(
    read_bytes: int, read_runs: int, write_bytes: int, write_runs: int, is_restickify: bool
) -> "_C.LaunchCost":
    if knobs.emulator.mode == "functional":
        return _C.LaunchCost()
    # Imported here: the timing model needs pydantic, which would slow down `import torch`.
    from torch_spyre.timing.copies import copy_cost

    return copy_cost(read_bytes, read_runs, write_bytes, write_runs, is_restickify)


def _scratchpad_samples(kernel: int) -> list[tuple[float, int]]:
    from torch_spyre.scratchpad.samples import samples

    return samples(kernel)


def _renew_launch_options() -> None:
    """Make the next launch read its options again, and forget the costs of copies."""
    _C._set_launch_options(launch_options)
    _C._set_copy_cost_model(_copy_cost)

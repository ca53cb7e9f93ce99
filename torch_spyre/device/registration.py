"""Makes `spyre` a PyTorch device. Called once, by autoload."""

import atexit
import gc
import time

import torch

from torch_spyre import _C, knobs
from torch_spyre.constants import DEVICE_NAME


def register() -> None:
    import torch_spyre.device as module
    from torch_spyre.device import config, patches
    from torch_spyre.ops import fallbacks

    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _C._set_config_source(config.enumerate_cards, config.runtime_config)
    _C._set_fallback_warning(fallbacks.warn)
    _C._set_garbage_collector(gc.collect)
    _C.set_downcast_warning(knobs.execution.downcast_warning)
    patches.apply()
    # Threads of streams must be idle when the interpreter goes.
    atexit.register(_C._finish_work)
    atexit.register(_let_autograd_finish)


def _let_autograd_finish() -> None:
    """Lets autograd's threads drop what they still hold of the last backward().

    That takes Python's lock, and a thread that asks for it while the interpreter ends is killed in
    a way that aborts the process.
    """
    if _C.is_started():
        time.sleep(0.01)

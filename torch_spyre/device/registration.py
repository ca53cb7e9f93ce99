"""Makes `spyre` a PyTorch device. Called once, by autoload."""

import atexit
import gc

import torch

from torch_spyre import _C, knobs
from torch_spyre.backend.launch import launch_options
from torch_spyre.constants import DEVICE_NAME


def register() -> None:
    import torch_spyre.device as module
    from torch_spyre.device import compiler, config, patches
    from torch_spyre.ops import eager, fallbacks, grouped_mm, recurrent

    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _C._set_config_source(config.enumerate_cards, config.runtime_config)
    _C._set_fallback_warning(fallbacks.warn)
    _C._set_fallback_refusal(fallbacks.refuse)
    _C._set_garbage_collector(gc.collect)
    _renew_launch_options()
    knobs.on_override(_renew_launch_options)
    _C.set_downcast_warning(knobs.execution.downcast_warning)
    patches.apply()
    recurrent.register()
    eager.register()
    grouped_mm.register()
    compiler.register()
    # Threads of streams must be idle when the interpreter goes.
    atexit.register(_C._finish_work)
    atexit.register(_let_autograd_finish)


def _renew_launch_options() -> None:
    """Has them read again when a bundle next runs."""
    _C._set_launch_options(launch_options)


def _let_autograd_finish() -> None:
    """Waits until autograd's threads have dropped what they held of the last backward().

    They do so after backward() has returned: the least is a Python context that it took along. That
    takes Python's lock, and a thread that asks for it while the interpreter ends is killed in a way
    that aborts the process. A card has one thread, which works in order: once it has done another
    graph, it has dropped those before. This one has no elements and, as it does not come through
    torch.autograd.backward, nothing of Python's.
    """
    if not _C.is_started():
        return
    engine = torch.autograd.Variable._execution_engine
    with torch.inference_mode(False), torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
        for card in range(_C.device_count()):
            device = torch.device(DEVICE_NAME, card)
            leaf = torch.empty(0, device=device, requires_grad=True)
            root, gradient = leaf.view(0), torch.empty(0, device=device)
            try:
                engine.run_backward((root,), (gradient,), False, False, (), accumulate_grad=True)
            except RuntimeError as error:
                if "fork" in str(error):  # this process has none of the threads
                    return
                raise

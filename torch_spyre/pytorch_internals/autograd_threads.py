"""Waits for autograd's threads when the interpreter exits."""

import torch

from torch_spyre import _C
from torch_spyre.constants import DEVICE_NAME


def wait_for_backward_threads() -> None:
    """Wait until autograd's threads have released the objects of the last `backward()`.

    They do so after `backward()` has returned: at least a Python context that it captured. That
    takes Python's lock, and a thread that requests it while the interpreter exits is killed in a
    way that aborts the process. Each card has one thread, which works in order: once it has run
    another graph, it has released the previous ones. This graph has no elements and, as it does
    not go through `torch.autograd.backward`, it holds no Python objects.
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
                if "fork" in str(error):  # the threads belong to the parent process
                    return
                raise

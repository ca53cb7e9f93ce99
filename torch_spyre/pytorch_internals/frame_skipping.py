"""Python kernels that Dynamo does not trace."""

from collections.abc import Callable
from typing import Any

import torch


def untraced(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python kernel so that Dynamo skips it, and return it.

    Dynamo evaluates every Python frame that runs under it, also those below the dispatcher.
    `torch.compiler.disable` would import Dynamo and wrap the kernel.
    """
    dynamo = torch._C._dynamo.eval_frame
    skip = dynamo._FrameAction.SKIP
    dynamo.set_code_exec_strategy(kernel.__code__, dynamo._FrameExecStrategy(skip, skip))
    return kernel

"""The Python side of the CPU fallback: its warning and its error.

The mechanism is `csrc/torch/cpu_call.cpp`.
"""

from collections.abc import Sequence
from typing import NoReturn

from torch_spyre.errors import FallbackError, FallbackWarning
from torch_spyre.logging_config import get_logger
from torch_spyre.ops.launch_site import line_of_call
from torch_spyre.user_frames import warn_at

logger = get_logger("torch_spyre.execution")


def warn(op: str) -> None:
    """Issue a `FallbackWarning` at the line of the user's code that calls the op."""
    line = line_of_call(op)
    logger.info("%s falls back to the CPU at %s", op, line)
    warn_at(line, f"{op} is falling back to cpu", FallbackWarning)


def reject(op: str, arguments: Sequence[object]) -> NoReturn:
    """Raise a `FallbackError` that names the line of the user's code that calls the op."""
    raise FallbackError(
        op, [described(argument) for argument in arguments], f" at {line_of_call(op)}"
    )


def described(argument: object) -> str:
    """Return an argument as text; of a tensor dtype, shape and device, but not its values."""
    import torch

    if isinstance(argument, torch.Tensor):
        dtype = str(argument.dtype).removeprefix("torch.")
        return f"{dtype}{list(argument.shape)} on {argument.device}"
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(described, argument))}]"
    return str(argument)

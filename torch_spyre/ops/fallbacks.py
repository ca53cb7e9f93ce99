"""The Python side of the CPU fallback: its warning and its refusal.

The mechanism is `csrc/torch/cpu_call.cpp`.
"""

import functools
import sys
import threading
import warnings
from collections.abc import Sequence
from os import sep
from pathlib import Path
from types import FrameType
from typing import NoReturn

from torch_spyre.errors import FallbackError


class FallbackWarning(UserWarning):
    """An op has no kernel on the card and was computed on the CPU. Given once per op."""


# Where compiled graphs have ops from: generated code stands between those lines and the op.
_lines_of_graphs: dict[str, tuple[str, int]] = {}


def note_line(op: str, file: str, line: int) -> None:
    """A compiled graph calls the op, for this line of the user's code."""
    _lines_of_graphs[op] = (file, line)


def warn(op: str) -> None:
    """Warns at the line of the user's code that needed the op."""
    file, line, module = _users_line(op)
    warnings.warn_explicit(f"{op} is falling back to cpu", FallbackWarning, file, line, module)


def refuse(op: str, arguments: Sequence[object]) -> NoReturn:
    """Raises for an op that would fall back, at the line that needed it."""
    file, line, _ = _users_line(op)
    raise FallbackError(op, [described(each) for each in arguments], f" at {file}:{line}")


def described(argument: object) -> str:
    """An argument in a message: of tensors what decides about kernels, and not their values."""
    import torch

    if isinstance(argument, torch.Tensor):
        dtype = str(argument.dtype).removeprefix("torch.")
        return f"{dtype}{list(argument.shape)} on {argument.device}"
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(described, argument))}]"
    return str(argument)


def _users_line(op: str) -> tuple[str, int, str | None]:
    """File, line and module of the user's code that needs the op."""
    here = sys._getframe()
    frame = _users_frame(here) or _users_frame(_main_thread()) or here
    module = frame.f_globals.get("__name__")
    if op in _lines_of_graphs and "SpyreAsyncCompile" in frame.f_globals:
        # The wrapper of a graph, as we have it generated: nobody's code.
        return *_lines_of_graphs[op], module
    return frame.f_code.co_filename, frame.f_lineno, module


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename.startswith(_not_the_users()):
        frame = frame.f_back
    return frame


@functools.cache
def _not_the_users() -> tuple[str, ...]:
    """PyTorch's folder and ours, as code objects spell them: symbolic links are not resolved."""
    # Here and not above: loading torch loads us, and needs this module whole.
    import torch

    return tuple(
        f"{Path(file).parent}{sep}" for file in (torch.__file__, str(Path(__file__).parent))
    )


def _main_thread() -> FrameType | None:
    """Where to look for threads that run no code of the user's, such as those of backward()."""
    return sys._current_frames().get(threading.main_thread().ident or 0)

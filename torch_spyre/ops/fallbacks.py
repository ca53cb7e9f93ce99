"""The Python side of the CPU fallback: its warning and its error.

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

from torch_spyre.errors import FallbackError, FallbackWarning

# The source line in the user's code of each op of compiled graphs: at run time the frames hold only
# generated code.
_lines_of_graphs: dict[str, tuple[str, int]] = {}


def record_user_line(op: str, file: str, line: int) -> None:
    """Record the line of the user's code that an op of a compiled graph comes from."""
    _lines_of_graphs[op] = (file, line)


def warn(op: str) -> None:
    """Issue a `FallbackWarning` at the line of the user's code that calls the op."""
    file, line, module = _users_line(op)
    warnings.warn_explicit(f"{op} is falling back to cpu", FallbackWarning, file, line, module)


def reject(op: str, arguments: Sequence[object]) -> NoReturn:
    """Raise a `FallbackError` that names the line of the user's code that calls the op."""
    file, line, _ = _users_line(op)
    raise FallbackError(op, [described(argument) for argument in arguments], f" at {file}:{line}")


def described(argument: object) -> str:
    """Return an argument as text; of a tensor dtype, shape and device, but not its values."""
    import torch

    if isinstance(argument, torch.Tensor):
        dtype = str(argument.dtype).removeprefix("torch.")
        return f"{dtype}{list(argument.shape)} on {argument.device}"
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(described, argument))}]"
    return str(argument)


def _users_line(op: str) -> tuple[str, int, str | None]:
    """Return file, line and module of the user's code that calls the op."""
    here = sys._getframe()
    frame = _users_frame(here) or _users_frame(_main_thread()) or here
    module = frame.f_globals.get("__name__")
    if op in _lines_of_graphs and "SpyreAsyncCompile" in frame.f_globals:
        # The generated wrapper of a graph.
        return *_lines_of_graphs[op], module
    return frame.f_code.co_filename, frame.f_lineno, module


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename.startswith(library_folders()):
        frame = frame.f_back
    return frame


@functools.cache
def library_folders() -> tuple[str, ...]:
    """Return the folders of PyTorch and of this package, with symbolic links not resolved."""
    # Not at the top: importing torch imports this module.
    import torch

    return tuple(
        f"{Path(file).parent}{sep}" for file in (torch.__file__, str(Path(__file__).parent))
    )


def _main_thread() -> FrameType | None:
    """Return the main thread's frame, for threads without user code such as those of backward()."""
    return sys._current_frames().get(threading.main_thread().ident or 0)

"""Finds the line of the user's program that is being executed, for warnings and messages.

`import torch` loads this module, so it must import the standard library only, and little of that.
"""

import functools
import sys
import threading
import warnings
from os import sep
from pathlib import Path
from types import FrameType
from typing import NamedTuple


class UserLine(NamedTuple):
    """A line of the user's program, and the name of its Python module if it is known."""

    file: str
    line: int
    module: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@functools.cache
def library_folders() -> tuple[str, ...]:
    """Return the folders of PyTorch and of this package, with symbolic links not resolved."""
    # Not at the top: importing torch imports this module.
    import torch

    return tuple(f"{Path(file).parent}{sep}" for file in (torch.__file__, __file__))


def warn_at(line: UserLine, message: str, category: type[Warning]) -> None:
    """Issue a warning at a line."""
    # `warnings` drops a warning whose module is None.
    module = line.module or line.file.removesuffix(".py")
    warnings.warn_explicit(message, category, line.file, line.line, module)


def current_line() -> UserLine:
    """Return the innermost line outside of PyTorch and this package that this thread executes.

    A thread without such lines, as those of backward(), works for the main thread.
    """
    here = sys._getframe()
    frame = _users_frame(here) or _users_frame(_main_thread()) or here
    return UserLine(frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__"))


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return frame


def _is_users(frame: FrameType) -> bool:
    """Return whether a frame belongs neither to a library nor to the wrapper of a graph."""
    file = frame.f_code.co_filename
    if file.startswith(library_folders()) or "SpyreAsyncCompile" in frame.f_globals:
        return False
    return not file.startswith("<") or file in ("<string>", "<stdin>")


def _main_thread() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)

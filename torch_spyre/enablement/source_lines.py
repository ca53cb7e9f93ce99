"""Find the line of a model's source that calls an op or raises an error."""

import linecache
import sys
from collections.abc import Iterable
from os import sep
from pathlib import Path
from traceback import walk_tb
from types import FrameType

import torch

from torch_spyre.user_frames import library_folders

_HERE = f"{Path(__file__).parent}{sep}"
# The modes are below the model's frames, the other modules of this package above them.
_BELOW_MODELS = (f"{_HERE}capture.py", f"{_HERE}function_calls.py", __file__)


def current_line() -> str:
    """Return `file:line` of the model's code that is being called, or an empty string."""
    frames = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _models_line(frames)


def line_of(error: BaseException) -> str:
    """Return `file:line` of the model's code that raised an error, or an empty string."""
    return _models_line(reversed(list(walk_tb(error.__traceback__))))


def modules_of(error: BaseException) -> list[str]:
    """Return the classes of the modules that were being called, the outermost first."""
    objects = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    names = [type(item).__name__ for item in objects if isinstance(item, torch.nn.Module)]
    return list(dict.fromkeys(names))


def source_line(location: str) -> str:
    """Return the text of the line at `file:line`, or an empty string."""
    file, _, line = location.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file else ""


def _models_line(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Return the innermost line that belongs to no library; `frames` are the innermost first."""
    for frame, line in frames:
        file = frame.f_code.co_filename
        if file.startswith(_HERE) and file not in _BELOW_MODELS:
            return ""  # the model's frames are all of PyTorch
        if not file.startswith(library_folders()):
            return f"{file}:{line}"
    return ""

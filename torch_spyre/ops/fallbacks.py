"""The Python side of the CPU fallback: its warning. The mechanism is `csrc/torch/fallback.cpp`."""

import sys
import warnings
from pathlib import Path

import torch


class FallbackWarning(UserWarning):
    """An op has no kernel on the card and was computed on the CPU. Given once per op."""


_OUR_FOLDER = str(Path(__file__).resolve().parent.parent)
_TORCH_FOLDER = str(Path(torch.__file__).resolve().parent)


def warn(op: str) -> None:
    """Warns at the line of the user's code that needed the op."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(
        (_OUR_FOLDER, _TORCH_FOLDER)
    ):
        frame = frame.f_back
    warnings.warn_explicit(
        f"{op} is falling back to cpu",
        FallbackWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
    )

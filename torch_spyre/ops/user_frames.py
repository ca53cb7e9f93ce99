"""The line of the user's program that is being executed."""

import sys
import threading
from types import FrameType

from torch_spyre.ops.fallbacks import library_folders


def users_line() -> str:
    """Return file and line of the innermost frame of the user's program."""
    # Threads of backward() have no frames of the user.
    main_thread = sys._current_frames().get(threading.main_thread().ident or 0)
    for start in (sys._getframe(1), main_thread):
        frame: FrameType | None = start
        while frame is not None:
            if _is_users(frame):
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
    return ""


def _is_users(frame: FrameType) -> bool:
    """Return whether a frame belongs neither to a library nor to the wrapper of a graph."""
    file = frame.f_code.co_filename
    if file.startswith(library_folders()) or "SpyreAsyncCompile" in frame.f_globals:
        return False
    return not file.startswith("<") or file in ("<string>", "<stdin>")

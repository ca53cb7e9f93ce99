"""The line of the user's program that an op or a launch comes from, also in compiled graphs.

At run time the frames of a compiled graph are those of generated code, so its lines come from the
nodes of the graph: the extension knows which graph each thread runs, and an interpreter which node.
"""

from torch_spyre import _C
from torch_spyre.user_frames import UserLine, current_line, library_folders


def register() -> None:
    """Tell the extension which frames are the user's."""
    _C._set_library_folders(library_folders(), lambda: str(current_line()))


def line_of_call(op: str) -> UserLine:
    """Return the line that calls an op."""
    location = _C._line_in_running_graph(op)
    if location is None:
        return current_line()
    file, _, line = location.rpartition(":")
    return UserLine(file, int(line))

"""Processes of this machine: whether one still runs, and how it was called."""

import os

MAX_COMMAND = 200


def own_pid_namespace() -> int:
    """Return the number of the namespace in which this process sees the numbers of processes."""
    return os.stat("/proc/self/ns/pid").st_ino


def is_running(pid: int, start_ticks: int) -> bool:
    """Return whether the process that started at this time runs, and not another of its number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return False
    # The name of the program, in parentheses, may contain anything.
    fields = text[text.rfind(b")") + 1 :].split()
    if len(fields) < 20:
        return False
    is_dead = fields[0] in (b"Z", b"X", b"x")  # its parent has not asked for its exit code yet
    return not is_dead and int(fields[19]) == start_ticks


def command_of(pid: int) -> str:
    """Return the command line of a process in printable characters, or an empty text."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            data = file.read(4 * MAX_COMMAND)
    except OSError:
        return ""
    text = " ".join(data.decode(errors="replace").split("\0")).strip()
    return "".join(c if c.isprintable() else " " for c in text)[:MAX_COMMAND]

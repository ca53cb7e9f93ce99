"""Samples: the files of all processes that use cards, read once.

The name of a file says which process it belongs to, `<pid namespace>-<pid>-<start time>.smi`, so
that the file of a dead process is recognised, and removed, whatever it contains.
"""

import errno
import fcntl
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from torch_spyre import knobs
from torch_spyre.errors import MonitorFileError, MonitorFolderError
from torch_spyre.monitor.host_process import is_running, own_pid_namespace
from torch_spyre.monitor.segment import Segment, read_segment

_NAME = re.compile(r"([0-9]{1,20})-([0-9]{1,10})-([0-9]{1,20})\.smi")
# struct flock on 64-bit Linux.
_LOCK = struct.Struct("hhqqi0q")


class Identity(NamedTuple):
    """A process, told from others that had or will have its number."""

    pid_namespace: int
    pid: int
    start_ticks: int


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was not read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Sample:
    """The counters of all processes at one time."""

    time_ns: int
    segments: Mapping[Identity, Segment] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()


def take_sample() -> Sample:
    """Read the files of all processes of this user, and remove those of dead ones.

    Raises `MonitorFolderError` if SPYRE_SMI_DIR names a folder that is not safe to use.
    """
    segments: dict[Identity, Segment] = {}
    skipped: list[Skipped] = []
    time_ns = time.monotonic_ns()
    for path in _folders():
        try:
            with _open_folder(path) as folder:
                _read_folder(path, folder, segments, skipped)
        except FileNotFoundError:
            continue  # no process has opened a card yet
        except MonitorFolderError as error:
            if knobs.MonitorKnobs.folder.text() is not None:
                raise
            skipped.append(Skipped(path, str(error)))
    return Sample(time_ns, segments, tuple(skipped))


def remove_dead_files(path: str) -> None:
    """Remove the files of dead processes: those that were killed left theirs behind.

    Does nothing to a folder that is not there or not safe to use.
    """
    try:
        with _open_folder(path) as folder:
            _live_files(folder)
    except (FileNotFoundError, MonitorFolderError):
        return


def _folders() -> tuple[str, ...]:
    if knobs.MonitorKnobs.folder.text() is None:
        return knobs.monitor_folders()
    folder = knobs.monitor.folder
    if folder is None:
        raise MonitorFolderError("of running processes", "SPYRE_SMI_DIR is off")
    return (os.path.abspath(folder),)


@contextmanager
def _open_folder(path: str) -> Iterator[int]:
    """Open a folder that belongs to this user, not through a symbolic link."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR)
        reason = "it is no folder, or a symbolic link" if is_link else str(error.strerror)
        raise MonitorFolderError(path, reason) from None
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid():
            raise MonitorFolderError(path, "it belongs to another user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise MonitorFolderError(path, "other users may write to it")
        yield folder
    finally:
        os.close(folder)


def _read_folder(
    path: str, folder: int, segments: dict[Identity, Segment], skipped: list[Skipped]
) -> None:
    namespace = own_pid_namespace()
    for name, identity in _live_files(folder):
        if identity.pid_namespace != namespace:
            skipped.append(Skipped(f"{path}/{name}", "its process runs in another container"))
            continue
        try:
            segment = _read_file(folder, name, identity)
        except MonitorFileError as error:
            skipped.append(Skipped(f"{path}/{name}", str(error)))
        else:
            if segment is not None:
                segments[identity] = segment


def _live_files(folder: int) -> list[tuple[str, Identity]]:
    """Return the files of processes that live, or may live in another container; remove others."""
    namespace = own_pid_namespace()
    live = []
    for name in sorted(os.listdir(folder)):
        match = _NAME.fullmatch(name)
        if match is None:
            continue  # none of ours
        identity = Identity(*map(int, match.groups()))
        is_here = identity.pid_namespace == namespace
        if is_here and not is_running(identity.pid, identity.start_ticks):
            _remove(folder, name)
        else:
            live.append((name, identity))
    return live


def _remove(folder: int, name: str) -> None:
    """Remove the file of a dead process, if that is what it is."""
    try:
        if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
    except OSError:
        return  # another monitor has removed it, or the folder is read-only


def _read_file(folder: int, name: str, identity: Identity) -> Segment | None:
    """Return the content of the file of a live process; None if the process shows no cards now."""
    # Not blocking: the name may be that of a pipe.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None  # it has exited
    except OSError as error:
        raise MonitorFileError(f"it cannot be opened: {error.strerror}") from None
    try:
        segment = read_segment(file)
        if segment is None:
            return None
        if (segment.pid_namespace, segment.pid, segment.start_ticks) != identity:
            raise MonitorFileError("it is the file of another process")
        # The process may have executed another program.
        return segment if _is_locked(file) else None
    finally:
        os.close(file)


def _is_locked(file: int) -> bool:
    query = _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    kind = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, query))[0]
    return bool(kind != fcntl.F_UNLCK)

"""Caches compiled programs on disk, so that a kernel is compiled once and not once per process.

A file is named by the hash of everything that the program depends on. Files are written
atomically, so processes need no locks: readers always see complete files, even if a writer is
killed. A problem with a file or the folder is logged and costs a compilation; it is not an error.

Programs are code, so only the user may write them: folders are created for the user alone, and what
another user owns or may write is not used.
"""

import contextlib
import functools
import hashlib
import os
import random
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch_spyre
from torch_spyre import knobs
from torch_spyre.backend.program.encoding import VERSION, payload_of
from torch_spyre.backend.program.program import Program, write_atomically
from torch_spyre.errors import ProgramError
from torch_spyre.logging_config import get_logger

logger = get_logger(__name__)

_MAGIC = b"SPYRECCH"
_KEY_BYTES = 32
# The card rejects larger programs.
_MAX_FILE_BYTES = (256 << 20) + len(_MAGIC) + _KEY_BYTES
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ABANDONED_AFTER_SECONDS = 3600
# The fraction of the limit in use after an eviction, so that not every write evicts programs.
_FILL_AFTER_EVICTION = 0.9
# The folder is scanned again after this fraction of the limit was written: other processes write
# to it too.
_RESCAN_FRACTION = 1 / 16
# Programs are in folders named by the first byte of their keys, which are uniformly distributed:
# a sample of folders with enough files gives an estimate of the total.
_FOLDERS = [f"{number:02x}" for number in range(256)]
_SAMPLED_FOLDERS = 8
_MIN_SAMPLED_FILES = 64
# A separate generator: the state of the global one must not change.
_RANDOM = random.Random()


def program_cache() -> "ProgramCache | None":
    """Return the cache that the knobs configure; None if they disable it."""
    folder, limit = knobs.execution.program_cache, knobs.execution.program_cache_megabytes
    return _cache_in(folder, limit << 20) if folder is not None and limit > 0 else None


@functools.lru_cache(maxsize=8)
def _cache_in(folder: str, limit: int) -> "ProgramCache":
    return ProgramCache(Path(folder), limit)


def cache_key(*parts: str) -> bytes:
    """Return the key of a program: a hash of these texts, the program format and the compiler."""
    digest = hashlib.sha256()
    for part in (*parts, str(VERSION), torch_spyre.__version__, _compiler_hash()):
        text = part.encode()
        # The length comes first, so that different lists of texts have different bytes.
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.digest()


@functools.cache
def _compiler_hash() -> str:
    """Return a hash of the compiler's code: a changed compiler must not load older programs."""
    root = Path(torch_spyre.__file__).parent
    digest = hashlib.sha256()
    for path in sorted((*root.glob("backend/**/*.py"), *root.glob("ktir/**/*.py"))):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _File:
    path: str
    bytes: int
    used: float


class ProgramCache:
    """Programs in a folder, at most `limit` bytes; the least recently used are evicted first."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._free_bytes: int | None = None
        self._warned = False

    def path(self, key: bytes) -> Path:
        name = key.hex()
        return self.folder / name[:2] / f"{name}.prg"

    def load(self, key: bytes) -> Program | None:
        """Return the program with a key; None if it is not cached or cannot be read."""
        path = self.path(key)
        try:
            _check_owner(os.stat(self.folder), self.folder)
            descriptor = _opened(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn_unusable(error)
            return None
        try:
            with os.fdopen(descriptor, "rb") as file:
                program = _unpacked(_content(file), key)
        except OSError as error:
            self._warn_unusable(error)
            return None
        except ProgramError as error:
            logger.warning("cached program %s is ignored and compiled again: %s", path, error)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return program

    def store(self, key: bytes, program: Program) -> None:
        """Write a program to the cache; a failure is logged."""
        raw = _MAGIC + key + program.file
        if len(raw) > self.limit:
            return
        try:
            path = self.path(key)
            _make_private(self.folder)
            _check_owner(os.stat(self.folder), self.folder)
            _make_private(path.parent)
            self._reserve(len(raw))
            write_atomically(path, raw)
        except OSError as error:
            self._warn_unusable(error)

    def _warn_unusable(self, error: OSError) -> None:
        if not self._warned:
            logger.warning("programs cannot be cached in %s: %s", self.folder, error)
        self._warned = True

    def _reserve(self, needed: int) -> None:
        """Evict programs if needed; the folder is scanned only if the limit may be reached."""
        if self._free_bytes is None or self._free_bytes < needed:
            free = self.limit - self._evict(self.limit - needed)
            self._free_bytes = min(free, max(int(self.limit * _RESCAN_FRACTION), needed))
        self._free_bytes -= needed

    def _evict(self, max_bytes: int) -> int:
        """Evict programs if they exceed `max_bytes`; return the bytes that remain."""
        estimate = self._estimated_bytes()
        if estimate is not None and estimate <= min(max_bytes, self.limit * _FILL_AFTER_EVICTION):
            return estimate
        files = sorted(_files(self.folder, _FOLDERS), key=lambda file: file.used)
        total = sum(file.bytes for file in files)
        if total <= max_bytes:
            return total
        for file in files:
            if total <= min(max_bytes, self.limit * _FILL_AFTER_EVICTION):
                break
            # Another process may have removed it already.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.path)
            total -= file.bytes
        return total

    def _estimated_bytes(self) -> int | None:
        """Return an estimate of the size of the cache; None if the sample is too small."""
        sample = _RANDOM.sample(_FOLDERS, _SAMPLED_FOLDERS)
        sizes = [file.bytes for file in _files(self.folder, sample)]
        if len(sizes) < _MIN_SAMPLED_FILES:
            return None
        return sum(sizes) * len(_FOLDERS) // _SAMPLED_FOLDERS


def _files(folder: Path, names: Sequence[str]) -> Iterator[_File]:
    """Yield the programs in folders of a cache; remove temporary files of killed processes."""
    abandoned = time.time() - _ABANDONED_AFTER_SECONDS
    for name in names:
        try:
            entries = os.scandir(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    if entry.name.endswith(".prg"):
                        yield _File(entry.path, status.st_size, status.st_mtime)
                    elif entry.name.endswith(".tmp") and status.st_mtime < abandoned:
                        os.unlink(entry.path)


def _make_private(folder: Path) -> None:
    """Create a folder, and those above it, for this user alone, whatever the umask is."""
    if folder.is_dir():
        return
    _make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _check_owner(status: os.stat_result, folder: Path) -> None:
    """Raise PermissionError if another user can write to the folder."""
    if status.st_uid != os.geteuid():
        raise PermissionError(
            f"it belongs to another user (uid {status.st_uid}); name another folder in "
            "TORCH_SPYRE_PROGRAM_CACHE"
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise PermissionError(
            f"other users may write to it; delete it, or run 'chmod go-w {folder}' if you trust "
            "its content"
        )


def _opened(path: Path) -> int:
    # Non-blocking: the path may be a pipe.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _content(file: BinaryIO) -> bytes:
    """Return the content of a file; raise ProgramError if it cannot be a program of this user."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a file")
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
        raise ProgramError("another user may have written it")
    if status.st_size > _MAX_FILE_BYTES:
        raise ProgramError(f"it has {status.st_size} bytes, more than a program can have")
    return file.read(_MAX_FILE_BYTES)


def _unpacked(raw: bytes, key: bytes) -> Program:
    start = len(_MAGIC) + _KEY_BYTES
    if raw[:start] != _MAGIC + key:
        raise ProgramError("the file does not hold the program of this kernel")
    payload_of(raw[start:])
    return Program(raw[start:])

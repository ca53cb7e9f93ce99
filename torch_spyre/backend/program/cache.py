"""Compiled programs on disk, so that a kernel is compiled once and not once per process.

A file is named by the hash of everything that decides what the program is. It appears at once or
not at all, so processes need no locks: readers see a whole file, whoever writes or is killed.
What is wrong with a file or the folder costs a compilation and is logged; it is never an error.
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

import torch_spyre
from torch_spyre import knobs
from torch_spyre.backend.program.encoding import VERSION, ProgramError, payload_of
from torch_spyre.backend.program.program import Program, write_at_once
from torch_spyre.logging_config import get_logger

logger = get_logger(__name__)

_MAGIC = b"SPYRECCH"
_KEY_BYTES = 32
_ABANDONED_AFTER_SECONDS = 3600
# Left of the limit after programs were removed, so that not every write removes some.
_KEPT_SHARE = 0.9
# Others write too: after this share of the limit has been written, the folder is looked at again.
_LOOK_SHARE = 1 / 16
# Programs lie in folders named by the first byte of their keys, which are spread evenly: where some
# folders hold enough files, these tell what is in all.
_FOLDERS = [f"{number:02x}" for number in range(256)]
_SAMPLED_FOLDERS = 8
_ENOUGH_FILES = 64
# Of our own: that of the program must not change.
_RANDOM = random.Random()


def program_cache() -> "ProgramCache | None":
    """The cache that the knobs name; None if they turn it off."""
    folder, limit = knobs.execution.program_cache, knobs.execution.program_cache_megabytes
    return _cache_in(folder, limit << 20) if folder is not None and limit > 0 else None


@functools.lru_cache(maxsize=8)
def _cache_in(folder: str, limit: int) -> "ProgramCache":
    return ProgramCache(Path(folder), limit)


def cache_key(*parts: str) -> bytes:
    """Names a program by these texts, by the form of programs and by the compiler."""
    digest = hashlib.sha256()
    for part in (*parts, str(VERSION), torch_spyre.__version__, _compiler()):
        text = part.encode()
        # The length first: no two lists of texts look the same.
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.digest()


@functools.cache
def _compiler() -> str:
    """The compiler's own code: whoever changes it must not get the programs of before."""
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
    """`limit` is in bytes; the programs used longest ago go first."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._room: int | None = None
        self._warned = False

    def path(self, key: bytes) -> Path:
        name = key.hex()
        return self.folder / name[:2] / f"{name}.prg"

    def find(self, key: bytes) -> Program | None:
        path = self.path(key)
        try:
            raw = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._cannot_use(error)
            return None
        try:
            program = _unpacked(raw, key)
        except ProgramError as error:
            logger.warning("cached program %s is ignored and made again: %s", path, error)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return program

    def keep(self, key: bytes, program: Program) -> None:
        raw = _MAGIC + key + program.file
        if len(raw) > self.limit:
            return
        try:
            self._make_room(len(raw))
            path = self.path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_at_once(path, raw)
        except OSError as error:
            self._cannot_use(error)

    def _cannot_use(self, error: OSError) -> None:
        if not self._warned:
            logger.warning("programs cannot be kept in %s: %s", self.folder, error)
        self._warned = True

    def _make_room(self, needed: int) -> None:
        """Looks at the folder only where the limit may have been reached since the last time."""
        if self._room is None or self._room < needed:
            left = self.limit - self._trimmed(self.limit - needed)
            self._room = min(left, max(int(self.limit * _LOOK_SHARE), needed))
        self._room -= needed

    def _trimmed(self, most: int) -> int:
        """Removes what was used longest ago if there is more than `most`; returns what is left."""
        likely = self._likely_bytes()
        if likely is not None and likely <= min(most, self.limit * _KEPT_SHARE):
            return likely
        files = sorted(_files(self.folder, _FOLDERS), key=lambda found: found.used)
        total = sum(found.bytes for found in files)
        if total <= most:
            return total
        for found in files:
            if total <= min(most, self.limit * _KEPT_SHARE):
                break
            # Another process may have removed it already.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(found.path)
            total -= found.bytes
        return total

    def _likely_bytes(self) -> int | None:
        """How much there is, without looking at all of it; None if it must be looked at."""
        sample = _RANDOM.sample(_FOLDERS, _SAMPLED_FOLDERS)
        sizes = [found.bytes for found in _files(self.folder, sample)]
        if len(sizes) < _ENOUGH_FILES:
            return None
        return sum(sizes) * len(_FOLDERS) // _SAMPLED_FOLDERS


def _files(folder: Path, names: Sequence[str]) -> Iterator[_File]:
    """The programs in a cache. What a killed process left half written is removed on the way."""
    abandoned = time.time() - _ABANDONED_AFTER_SECONDS
    for name in names:
        try:
            entries = os.scandir(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(found.st_mode):
                        continue
                    if entry.name.endswith(".prg"):
                        yield _File(entry.path, found.st_size, found.st_mtime)
                    elif entry.name.endswith(".tmp") and found.st_mtime < abandoned:
                        os.unlink(entry.path)


def _read(path: Path) -> bytes:
    # Without waiting: the name may be a pipe's.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a file")
        return file.read()


def _unpacked(raw: bytes, key: bytes) -> Program:
    start = len(_MAGIC) + _KEY_BYTES
    if raw[:start] != _MAGIC + key:
        raise ProgramError("not the program of this kernel")
    payload_of(raw[start:])
    return Program(raw[start:])

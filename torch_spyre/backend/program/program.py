"""A compiled program: the file that a card loads, its content and its listing."""

import os
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_spyre.backend.program.encoding import (
    HEADER_BYTES,
    decode,
    encode,
)
from torch_spyre.backend.program.instructions import Argument, ProgramContent
from torch_spyre.errors import ProgramError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see all of it or nothing, even if this process is killed."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class Program:
    """A program in its file form; two programs are equal if their bytes are."""

    file: bytes
    # Caches of launches: the program as each card loaded it, and its modelled times.
    loaded: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)
    timings: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def from_content(content: ProgramContent) -> "Program":
        """Encode the content as a program."""
        program = Program(encode(content))
        # Decoding the file would return the same.
        program.__dict__["content"] = content
        return program

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Program":
        """Return a saved program; a card checks whether it is valid when it loads it."""
        try:
            file = Path(path).read_bytes()
        except OSError as error:
            raise ProgramError(f"cannot read {str(path)!r}: {error.strerror}") from error
        decode(file)
        return Program(file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        try:
            write_atomically(Path(path), self.file)
        except OSError as error:
            raise ProgramError(f"cannot write {str(path)!r}: {error.strerror}") from error

    @cached_property
    def content(self) -> ProgramContent:
        """Return the decoded content."""
        return decode(self.file)

    @cached_property
    def hash(self) -> str:
        """Return the hash of the content; equal programs have equal hashes."""
        return self.file[HEADER_BYTES - 32 : HEADER_BYTES].hex()

    @property
    def name(self) -> str:
        return self.content.name

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.content.arguments

    def listing(self, sources: Sequence[str] = (), index_sources: Sequence[str] = ()) -> str:
        """Return the program as text.

        `sources` are the user's lines of its OpSpecs, in order, and `index_sources` those of their
        loads through index tensors.
        """
        from torch_spyre.backend.program.listing import listing

        return listing(self.content, sources, index_sources)

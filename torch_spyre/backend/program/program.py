"""A compiled program: what the card loads, with what people and tools want to know of it."""

import os
import tempfile
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_spyre.backend.program.encoding import (
    HEADER_BYTES,
    ProgramError,
    decode,
    encode,
)
from torch_spyre.backend.program.instructions import Argument, ProgramContent


def write_at_once(path: Path, content: bytes) -> None:
    """Nobody ever sees half of the file, not even if this process is killed."""
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
    """`file` is the form on disk; two programs are equal when these bytes are."""

    file: bytes
    # What a card made of it, and what the clock said, so that a launch need not ask again.
    loaded: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)
    timings: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(content: ProgramContent) -> "Program":
        program = Program(encode(content))
        # Reading it back would give the same.
        program.__dict__["content"] = content
        return program

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Program":
        """Reads a saved program. That a card takes it shows when the card loads it."""
        try:
            file = Path(path).read_bytes()
        except OSError as error:
            raise ProgramError(f"cannot read {str(path)!r}: {error.strerror}") from error
        decode(file)
        return Program(file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file at once or not at all: nobody ever sees half of it."""
        try:
            write_at_once(Path(path), self.file)
        except OSError as error:
            raise ProgramError(f"cannot write {str(path)!r}: {error.strerror}") from error

    @cached_property
    def content(self) -> ProgramContent:
        return decode(self.file)

    @cached_property
    def hash(self) -> str:
        """Names the content: the same kernel compiled the same way has the same hash."""
        return self.file[HEADER_BYTES - 32 : HEADER_BYTES].hex()

    @property
    def name(self) -> str:
        return self.content.name

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.content.arguments

    def listing(self) -> str:
        """The program as people read it."""
        from torch_spyre.backend.program.listing import listing

        return listing(self.content)

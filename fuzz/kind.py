"""The interface of a kind of input, and the errors that an input may and may not cause."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from torch_spyre.errors import CompilerFailure, InvalidBundleError, SpyreError

# What JSON can represent: inputs are saved as cases.
Content = Any


class Violation(Exception):
    """An input ran, and broke a promise: a wrong result, or changed bytes of another tensor.

    Violations with equal summaries are taken to have one cause; `details` may differ.
    """

    def __init__(self, summary: str, details: str = "") -> None:
        super().__init__(f"{summary}: {details}" if details else summary)
        self.summary = summary


class Rejected(Exception):
    """An input was rejected as documented, by an error that has no class in `errors.py`."""


class Kind(ABC):
    """One kind of input: how to generate it, run it, and make it smaller.

    `run` returns if the input was accepted. A documented error that it raises means that the input
    was rejected; any other exception is a finding.
    """

    name: ClassVar[str]
    # Limits of one input; what exceeds them is a finding.
    seconds: ClassVar[float] = 20.0
    megabytes: ClassVar[int] = 1024
    # Inputs that a worker is given at once.
    batch: ClassVar[int] = 50

    def prepare(self) -> None:  # noqa: B027  (nothing to do by default)
        """Set up the process; called in a worker before its first input, and after other kinds."""

    @abstractmethod
    def generate(self, chance: random.Random) -> Content:
        """Return an input that depends on `chance` alone."""

    @abstractmethod
    def run(self, content: Content) -> None:
        """Run an input; raise if it is rejected or finds something."""

    def smaller(self, content: Content) -> Iterator[Content]:
        """Yield inputs that are simpler than this one, the simplest first."""
        yield from ()


def chance_of(seed: int, kind: str, number: int) -> random.Random:
    """Return the source of randomness of one input."""
    return random.Random(f"{seed} {kind} {number}")


def is_rejection(error: BaseException) -> bool:
    """Return whether an error is the documented rejection of an input, not a bug."""
    if isinstance(error, CompilerFailure | InvalidBundleError):
        return False
    return isinstance(error, SpyreError | Rejected)


def shorter_lists(items: list[Any]) -> Iterator[list[Any]]:
    """Yield the list without a half, a quarter and so on of its items, down to single items."""
    length = len(items) // 2
    while length:
        for start in range(0, len(items), length):
            yield items[:start] + items[start + length :]
        length //= 2

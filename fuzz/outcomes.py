"""What a worker is asked to do, and what it reports."""

import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from fuzz.kind import Content, Violation

_ROOT = Path(__file__).parents[1]
_OURS = ("torch_spyre", "fuzz")


@dataclass(frozen=True)
class Problem:
    """Why an input is a finding.

    Problems with equal signatures have the same cause, as far as one can tell.
    """

    signature: str
    description: str


@dataclass(frozen=True)
class Batch:
    """Inputs `first` to `first + count - 1` of a kind."""

    kind: str
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count

    def after(self, number: int) -> "Batch":
        """Return the inputs behind one of the batch."""
        return Batch(self.kind, number + 1, self.end - number - 1)


@dataclass(frozen=True)
class Generate:
    """The task to return input `number` of a kind."""

    kind: str
    number: int


@dataclass(frozen=True)
class Try:
    """The task to run an input that a case holds; the answer is its problem, or None."""

    kind: str
    content: Content


Task = Batch | Generate | Try


@dataclass(frozen=True)
class Found:
    """Input `number` of a kind is a finding."""

    kind: str
    number: int
    problem: Problem


@dataclass(frozen=True)
class Finished:
    """A batch is done; `seconds` is its time in the worker."""

    batch: Batch
    ran: int
    rejected: int
    seconds: float


def problem_of(error: BaseException) -> Problem:
    """Describe an exception; its signature is its class, where it was raised, and its message."""
    text = "".join(traceback.format_exception(error, limit=-12))
    if isinstance(error, Violation):
        return Problem(error.summary, text)
    frames = traceback.extract_tb(error.__traceback__)
    place = "outside"
    for frame in frames:
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT) and path.relative_to(_ROOT).parts[0] in _OURS:
            place = f"{path.relative_to(_ROOT)}:{frame.name}"
    message = str(error).partition("Exception raised from")[0].strip()
    return Problem(f"{type(error).__name__} in {place}: {_without_details(message)}", text)


def _without_details(message: str) -> str:
    """Return the first line of a message without numbers, quoted texts and names of values."""
    line = message.partition("\n")[0]
    line = re.sub(r"'[^']*'|\"[^\"]*\"|%\w+|\[[^\]]*\]|\([^)]*\)", "…", line)
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", line)[:120]

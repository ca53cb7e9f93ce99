"""The report of a bisection: the levels that it has tried, and the conclusion."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Verdict(Enum):
    """The answer of a level about the result."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Level:
    """One question that was asked, and its answer."""

    name: str
    # What is established if the verdict is right.
    establishes: str
    verdict: Verdict
    detail: str = ""


@dataclass
class Bisection:
    """All levels in the order in which they were tried, and where the search ended."""

    levels: list[Level] = field(default_factory=list)
    # The part of the stack that is wrong; empty if nothing diverges.
    guilty: str = ""
    compiler_pass: str = ""
    op: str = ""
    kernel: str = ""
    origin: str = ""
    line: str = ""
    folder: Path | None = None
    # The settings with which a wrong kernel is right.
    right_with: list[str] = field(default_factory=list)
    # The full message of a divergence, or the end of the errors of a script that failed.
    message: str = ""
    # The script fails for a reason that is none of the card's.
    has_failed: bool = False

    def add(self, name: str, establishes: str, verdict: Verdict, detail: str = "") -> Verdict:
        self.levels.append(Level(name, establishes, verdict, detail))
        return verdict

    @property
    def exit_code(self) -> int:
        """0 if nothing diverges, 1 if something does, 2 if the script fails for another reason."""
        if self.has_failed:
            return 2
        return 1 if self.guilty else 0

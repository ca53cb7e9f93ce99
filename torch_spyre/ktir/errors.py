"""Errors and warnings about KTIR text, with the source location that they point at."""

from dataclasses import dataclass

from torch_spyre.errors import SpyreError

_MAX_EXCERPT = 160


def _printable(text: str) -> str:
    """Replace control characters, so that a malformed text cannot send commands to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


@dataclass(frozen=True)
class SourceLocation:
    """A range of columns in one source line. Line and column count from one."""

    file: str
    line: int
    column: int
    length: int
    source_line: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """Return the source line, truncated if it is long, with carets under the range."""
        start = max(0, self.column - 1 - _MAX_EXCERPT // 2)
        shown = self.source_line[start : start + _MAX_EXCERPT]
        printable = _printable(shown)
        before = self.column - 1 - start
        carets = "^" * max(1, min(self.length, len(printable) - before))
        return f"  {printable}\n  {' ' * before}{carets}"


class KtirError(SpyreError, ValueError):
    """A KTIR text is malformed or fails verification."""

    keeps_lines = True

    def __init__(self, problem: str, location: SourceLocation | None = None) -> None:
        self.problem = problem = "\n".join(map(_printable, problem.split("\n")))
        self.location = location
        if location is None:
            super().__init__(problem)
        else:
            super().__init__(f"{location}: {problem}\n{location.excerpt()}")


class SetError(SpyreError, ValueError):
    """The points of an affine set cannot be enumerated: it is unbounded or too large."""

    def __init__(self, affine_set: object, problem: str) -> None:
        super().__init__(f"affine_set<{affine_set}>: {problem}")


class KtirWarning(UserWarning):
    """A KTIR text is legal but probably not what its author intended."""

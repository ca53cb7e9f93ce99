"""What can be wrong with a KTIR text: one error class, which points at its place, and a warning."""

from dataclasses import dataclass

from torch_spyre.errors import SpyreError

_LONGEST_EXCERPT = 160


def _printable(text: str) -> str:
    """A damaged text may hold anything; none of it may steer a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


@dataclass(frozen=True)
class SourcePlace:
    """A stretch of one source line. Line and column count from one."""

    file: str
    line: int
    column: int
    length: int
    source_line: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The source line with a caret under every column of the stretch, cut where it is long."""
        start = max(0, self.column - 1 - _LONGEST_EXCERPT // 2)
        shown = self.source_line[start : start + _LONGEST_EXCERPT]
        printable = _printable(shown)
        before = self.column - 1 - start
        carets = "^" * max(1, min(self.length, len(printable) - before))
        return f"  {printable}\n  {' ' * before}{carets}"


class KtirError(SpyreError, ValueError):
    """A KTIR text is malformed, or breaks a rule of an operation."""

    keeps_lines = True

    def __init__(self, problem: str, place: SourcePlace | None = None) -> None:
        self.problem = problem = "\n".join(map(_printable, problem.split("\n")))
        self.place = place
        if place is None:
            super().__init__(problem)
        else:
            super().__init__(f"{place}: {problem}\n{place.excerpt()}")


class SetError(SpyreError, ValueError):
    """The points of an affine set cannot be listed: it has no end, or it is far too large."""

    def __init__(self, affine_set: object, problem: str) -> None:
        super().__init__(f"affine_set<{affine_set}>: {problem}")


class KtirWarning(UserWarning):
    """A KTIR text is legal, and probably does not mean what its author wanted."""

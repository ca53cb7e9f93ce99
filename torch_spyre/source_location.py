"""A position in a source text, as error messages show it."""

from dataclasses import dataclass

_MAX_EXCERPT = 160


def printable(text: str) -> str:
    """Replace unprintable characters by spaces: a damaged text must not control the terminal."""
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
        """Return the source line, shortened if it is long, with a caret under every column."""
        start = max(0, self.column - 1 - _MAX_EXCERPT // 2)
        line = printable(self.source_line[start : start + _MAX_EXCERPT])
        indent = self.column - 1 - start
        carets = "^" * max(1, min(self.length, len(line) - indent))
        return f"  {line}\n  {' ' * indent}{carets}"

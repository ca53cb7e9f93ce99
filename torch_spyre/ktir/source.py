"""The text of a KTIR module, with conversion of positions to lines and columns."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from torch_spyre.source_location import SourceLocation

_WORD = re.compile(r"[\w.$]+")


@dataclass(frozen=True)
class Source:
    """A named text. The name is the file it came from, or `<text>`."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Return the line and column, counted from one, of a position in the text."""
        line = bisect_right(self._line_starts, position)
        return line, position - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Return a line, counted from one, without its newline."""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def location(self, start: int, end: int) -> SourceLocation:
        """Return the location of a span, truncated to its first line."""
        line, column = self.line_and_column(min(start, len(self.text)))
        return SourceLocation(self.name, line, column, max(1, end - start), self.line_text(line))

    def word_at(self, line: int, column: int) -> SourceLocation:
        """Return the location of the word that begins at a line and column, such as an op name."""
        source_line = self.line_text(line)
        word = _WORD.match(source_line, column - 1)
        return SourceLocation(self.name, line, column, len(word[0]) if word else 1, source_line)

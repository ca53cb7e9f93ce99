"""The origins of a kernel's ops: the `loc(...)` at the end of their text in its KTIR."""

import re
from collections.abc import Sequence

_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)\s*$")
_AT_END = re.compile(r" loc\((.*)\)\s*$")
_NAMED = re.compile(r'"(?P<name>[^"]*)"\("(?P<file>[^"]*)":(?P<line>\d+):\d+\)')
_NAME = re.compile(r'"(?P<name>[^"]*)"')
_POSITION = re.compile(r'"(?P<file>[^"]*)":(?P<line>\d+):\d+')


class Origins:
    """The lines and ops of a user's program that the lines of a KTIR text were compiled from."""

    def __init__(self, ktir_lines: Sequence[str]) -> None:
        self._lines = ktir_lines
        matches = (_ALIAS.match(line) for line in ktir_lines)
        self._aliases = {match[1]: match[2] for match in matches if match is not None}

    def of_line(self, line: int) -> str:
        """Return the origin of the op that begins in a line, counted from one; empty if unknown."""
        if not 0 < line <= len(self._lines):
            return ""
        match = _AT_END.search(self._last_line(line - 1))
        if match is None:
            return ""
        return _readable(self._aliases.get(match[1], match[1]))

    def _last_line(self, begin: int) -> str:
        """Return the line in which an op ends: the `}` of its regions has the op's indentation."""
        indentation = _indentation(self._lines[begin])
        for number in range(begin, len(self._lines)):
            line = self._lines[number]
            if number > begin and line.strip() and _indentation(line) < indentation:
                break
            if _indentation(line) == indentation and _is_end(line, self._lines[number + 1 :][:1]):
                return line
        return ""


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_end(line: str, following: Sequence[str]) -> bool:
    """Return whether an op ends in a line: its regions may begin in this line or the next one."""
    is_open = line.rstrip().endswith("{") or line.lstrip().startswith("^")
    return not is_open and not any(text.lstrip().startswith("(") for text in following)


def _readable(location: str) -> str:
    """Return the text of a location: an op, a file and a line, as far as it has them."""
    if match := _NAMED.fullmatch(location):
        return f"{match['name']}, {match['file']}:{match['line']}"
    if match := _POSITION.fullmatch(location):
        return f"{match['file']}:{match['line']}"
    if match := _NAME.fullmatch(location):
        return match["name"]
    return "" if location == "unknown" else location

"""The origins of a kernel's ops: the `loc(...)` at the end of their lines in its KTIR."""

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
        """Return the origin of a line, counted from one; empty if it is unknown."""
        if not 0 < line <= len(self._lines):
            return ""
        match = _AT_END.search(self._lines[line - 1])
        if match is None:
            return ""
        return _readable(self._aliases.get(match[1], match[1]))


def _readable(location: str) -> str:
    """Return the text of a location: an op, a file and a line, as far as it has them."""
    if match := _NAMED.fullmatch(location):
        return f"{match['name']}, {match['file']}:{match['line']}"
    if match := _POSITION.fullmatch(location):
        return f"{match['file']}:{match['line']}"
    if match := _NAME.fullmatch(location):
        return match["name"]
    return "" if location == "unknown" else location

"""Errors and warnings of commands, on stderr: coloured on a terminal, unless NO_COLOR is set."""

import re

from rich.console import Console
from rich.text import Text

# `file:line:column:` at the start of a message.
_LOCATION = re.compile(r"\S+:\d+:\d+: ")


def print_error(message: str) -> None:
    """Print `error: ...`; the lines after the first are an excerpt of a text."""
    _print("error", "bold red", message)


def print_warning(message: str) -> None:
    """Print `warning: ...`."""
    _print("warning", "bold yellow", message)


def _print(kind: str, style: str, message: str) -> None:
    first, *excerpt = message.split("\n")
    text = Text.assemble((f"{kind}: ", style))
    location = _LOCATION.match(first)
    end = location.end() if location else 0
    text.append(first[:end], "bold")
    text.append(first[end:])
    for line in excerpt:
        text.append("\n")
        text.append(line, "green" if set(line) == {" ", "^"} else "")
    # Lines are not wrapped: other programs read them.
    Console(stderr=True, markup=False, highlight=False, soft_wrap=True).print(text)

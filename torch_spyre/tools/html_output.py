"""Writing the pages of commands."""

from pathlib import Path

from torch_spyre.errors import OutputError


def write_html(path: Path, text: str) -> None:
    """Write a page; raise OutputError if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(path, error) from error

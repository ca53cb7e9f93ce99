"""Parts of text reports: sizes with units, tables, and ranges of numbers; and writing them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from torch_spyre.errors import OutputError


def write_text(path: Path, text: str) -> None:
    """Write a report in UTF-8; raise OutputError if that fails.

    Characters that UTF-8 cannot encode, which damaged files may contain, are escaped.
    """
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise OutputError(path, error) from error


def readable_bytes(count: int) -> str:
    """Return a size with a unit of 1024 bytes, such as `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text, such as `0-3, 8`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

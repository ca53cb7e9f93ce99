"""Tables whose rows a click on a column's head sorts, and which a text box filters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Cell:
    """A cell with a CSS class, or with a number to sort by instead of its text."""

    text: str
    style: str = ""
    sort: float | None = None


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[Cell | str]]) -> str:
    """Return a table with this id."""
    head = "".join(f'<th tabindex="0">{escape(title)}</th>' for title in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return (
        f'<table id="{escape(name)}"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table>"
    )


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    style = f' class="{escape(cell.style)}"' if cell.style else ""
    sort = "" if cell.sort is None else f' data-sort="{cell.sort!r}"'
    return f"<td{style}{sort}>{escape(cell.text)}</td>"


def filter_box(name: str, hint: str = "filter") -> str:
    """Return a text box that hides the rows of a table that lack one of its words."""
    return (
        f'<p><input data-filters="{escape(name)}" placeholder="{escape(hint)}" '
        'aria-label="filter"></p>'
    )

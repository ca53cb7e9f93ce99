"""Suggestions for misspelled names in error messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` for the names nearest to a misspelled one, or nothing."""
    matches = get_close_matches(name, list(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def op_suggestion(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an op: a similar name, or the same name in another dialect."""
    names = list(known)
    same = [candidate for candidate in names if candidate.split(".")[-1] == name.split(".")[-1]]
    if same and name not in same:
        return f"; did you mean {' or '.join(sorted(same)[:2])}?"
    return suggestion(name, names)

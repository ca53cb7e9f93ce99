"""What is kept so that it need not be made again, and how much of it."""

from collections.abc import Hashable
from typing import TypeVar

Value = TypeVar("Value")

# A kernel may be launched with other scalars each time: more than this many are not remembered.
MOST_KEPT = 256


def keep(kept: dict[Hashable, Value], key: Hashable, value: Value) -> Value:
    """Keeps a value under its key; where there are too many, what was kept first goes."""
    for oldest in list(kept)[: max(len(kept) - MOST_KEPT + 1, 0)]:
        kept.pop(oldest, None)  # Another thread may have come first.
    kept[key] = value
    return value

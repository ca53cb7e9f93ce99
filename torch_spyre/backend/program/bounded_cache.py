"""Bounded caches in dictionaries."""

from collections.abc import Hashable
from typing import TypeVar

Value = TypeVar("Value")

# A kernel may be launched with different scalars each time.
MAX_ENTRIES = 256


def add_to_cache(entries: dict[Hashable, Value], key: Hashable, value: Value) -> Value:
    """Cache a value under its key, evict the oldest entries beyond the limit; return the value."""
    for oldest in list(entries)[: max(len(entries) - MAX_ENTRIES + 1, 0)]:
        entries.pop(oldest, None)  # Another thread may have removed it.
    entries[key] = value
    return value

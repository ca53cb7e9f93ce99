"""What the kernels of eager ops keep: plans, by the metadata of their arguments."""

from collections.abc import Callable, Sequence
from typing import Any

# What one kind of call does.
Plan = Callable[[Sequence[Any], dict[str, Any]], Any]
# Of one op; the oldest goes first.
_MOST = 4096


def keep(found: dict[object, Any], key: object, value: object) -> None:
    if key not in found and len(found) >= _MOST:
        found.pop(next(iter(found)), None)
    found[key] = value

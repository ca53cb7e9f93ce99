"""What the kernels of eager ops keep: plans, by the metadata of their arguments."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

# What one kind of call does.
Plan = Callable[[Sequence[Any], dict[str, Any]], Any]
# Of one op; the oldest goes first.
_MOST = 4096


class Plans(dict[object, Any]):
    """By a key of the arguments; `forget` finds it as long as its kernel lives."""

    def __init__(self) -> None:
        super().__init__()
        _living[id(self)] = self


_living: WeakValueDictionary[int, Plans] = WeakValueDictionary()


def forget() -> None:
    """Every op is compiled anew when it is called next, as after the start of a process."""
    for plans in list(_living.values()):
        plans.clear()


def keep(found: Plans, key: object, value: object) -> None:
    if key not in found and len(found) >= _MOST:
        found.pop(next(iter(found)), None)
    found[key] = value

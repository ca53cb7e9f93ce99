"""What the kernels of eager ops keep: plans, by the metadata of their arguments."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from torch_spyre import knobs

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


def _forget_for_another_card() -> None:
    """Drop all plans if a knob override selects another card or other cores."""
    global _compiled_for
    target = _target()
    if target != _compiled_for:
        _compiled_for = target
        forget()


def _target() -> tuple[str, str | None]:
    return knobs.device.card, knobs.DivisionKnobs.cores.text()


_compiled_for = _target()
knobs.on_override(_forget_for_another_card)


def keep(found: Plans, key: object, value: object) -> None:
    if key not in found and len(found) >= _MOST:
        found.pop(next(iter(found)), None)
    found[key] = value

"""The caches of plans that the kernels of eager ops hold, by the metadata of arguments."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from torch_spyre import knobs

# Runs a call with arguments of one kind.
Plan = Callable[[Sequence[Any], dict[str, Any]], Any]
# The capacity of one cache; the oldest plan is dropped first.
_MAX_PLANS = 4096


class Plans(dict[object, Any]):
    """Plans by key of the arguments. `forget` clears those of every live kernel."""

    def __init__(self) -> None:
        super().__init__()
        _living[id(self)] = self


_living: WeakValueDictionary[int, Plans] = WeakValueDictionary()


def forget() -> None:
    """Drop all plans, so that every op is compiled again, as at the start of a process."""
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


def keep(plans: Plans, key: object, value: object) -> None:
    """Add a plan to the cache."""
    if key not in plans and len(plans) >= _MAX_PLANS:
        plans.pop(next(iter(plans)), None)
    plans[key] = value

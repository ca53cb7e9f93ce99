"""Caches of plans for eager ops. The key of a plan is the metadata of the call's arguments."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from torch_spyre import knobs

# Runs a call whose arguments have the metadata that the plan was made for.
Plan = Callable[[Sequence[Any], dict[str, Any]], Any]
# The capacity of one cache; the oldest plan is dropped first.
_MAX_PLANS = 4096


class Plans(dict[object, Any]):
    """The plans of one kernel, by key. `clear_all_plans` clears the plans of every live kernel."""

    def __init__(self) -> None:
        super().__init__()
        _live_caches[id(self)] = self


_live_caches: WeakValueDictionary[int, Plans] = WeakValueDictionary()


def clear_all_plans() -> None:
    """Drop all plans, so that every op is compiled again, as at the start of a process."""
    for plans in list(_live_caches.values()):
        plans.clear()


def _clear_if_target_changed() -> None:
    """Drop all plans if a knob override changes how kernels are compiled or loaded."""
    global _compiled_for
    target = _target()
    if target != _compiled_for:
        _compiled_for = target
        clear_all_plans()


def _target() -> tuple[object, ...]:
    return (
        knobs.device.card,
        knobs.DivisionKnobs.cores.text(),
        knobs.DivisionKnobs.fusion.text(),
        knobs.ExecutionKnobs.verify.text(),
        knobs.ExecutionKnobs.verify_passes.text(),
        knobs.LoggingKnobs.dump.text(),
    )


_compiled_for = _target()
knobs.on_override(_clear_if_target_changed)


def add_plan(plans: Plans, key: object, value: object) -> None:
    """Add a plan to the cache."""
    if key not in plans and len(plans) >= _MAX_PLANS:
        plans.pop(next(iter(plans)), None)
    plans[key] = value

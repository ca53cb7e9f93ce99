"""Converts the timing of a program into the cost record of its launches."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from torch_spyre import _C
from torch_spyre.timing.result import Timing, UnitTimes


def launch_cost(
    timing: Timing, ops: Sequence[str], category: str = "custom", kernel: int = 0
) -> _C.LaunchCost:
    """Return the cost of a launch, with the figures that profilers and monitors show for it.

    `ops` are the operations of the kernel, in order, and `category` is their kind. `kernel` is its
    number in `backend.loaded_kernels`; 0 if it is no program.
    """
    used = timing.utilisation
    names = {"op": " ".join(dict.fromkeys(ops)), "op_category": category}
    metrics = kernel_metrics(timing) | names
    return _C.LaunchCost(
        time_ps=timing.time_ps,
        ddr_read_bytes=timing.ddr_read_bytes,
        ddr_write_bytes=timing.ddr_write_bytes,
        pt_ps=_time_at_peak(used.pt, timing),
        sfp_ps=_time_at_peak(used.sfp, timing),
        lx_ps=_time_at_peak(used.lx, timing),
        ring_ps=_time_at_peak(used.ring, timing),
        metrics={name: json.dumps(value) for name, value in metrics.items()},
        kernel=kernel,
    )


def _time_at_peak(utilisation: float, timing: Timing) -> int:
    """Return the time in ps that a unit would take for its work at its peak rate."""
    return round(utilisation * timing.time_ps)


def kernel_metrics(timing: Timing) -> dict[str, Any]:
    """Return the arguments that a kernel has in traces.

    Utilisations are shares of the chip's peak, 0 to 1. `ideal_cycles` is the time that the matrix
    unit would take if it did not wait for any other unit.
    """
    used = timing.utilisation
    return {
        "pt_util": used.pt,
        "sfp_util": used.sfp,
        "ddr_util": used.ddr,
        "lx_util": used.lx,
        "ring_util": used.ring,
        "cores": max((step.cores for step in timing.steps), default=0),
        "bound_by": timing.bound_by,
        "lx_peak_bytes": timing.lx_peak_bytes,
        "cycles": timing.cycles,
        "ideal_cycles": round(timing.cycles * used.pt),
        "unit_cycles": unit_cycles(timing),
    }


def unit_cycles(timing: Timing) -> dict[str, dict[str, int]]:
    """Return for each unit how many cycles of the kernel it is busy, stalled and idle.

    A unit is stalled while it waits for another one in a step that gives it work, and idle in the
    other steps. The three add up to the cycles of the kernel.
    """
    return {field.name: _states(timing, field.name) for field in fields(UnitTimes)}


def _states(timing: Timing, unit: str) -> dict[str, int]:
    busy_ps = used_ps = 0
    for step in timing.steps:
        time_ps = min(getattr(step.busy, unit), step.duration_ps)
        busy_ps += time_ps
        used_ps += step.duration_ps if time_ps else 0
    cycles_per_ps = timing.cycles / timing.time_ps if timing.time_ps else 0.0
    busy, used = (round(time_ps * cycles_per_ps) for time_ps in (busy_ps, used_ps))
    return {"busy": busy, "stalled": used - busy, "idle": timing.cycles - used}

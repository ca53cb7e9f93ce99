"""Converts the timing of a program into the cost record of its launches."""

import json
from collections.abc import Sequence

from torch_spyre import _C
from torch_spyre.timing.result import Timing


def launch_cost(timing: Timing, ops: Sequence[str], kernel: int = 0) -> _C.LaunchCost:
    """Return the cost of a launch, with the figures that profilers show for it.

    `ops` are the operations of the kernel, in order, and `kernel` is its number in
    `backend.loaded_kernels`; 0 if it is no program.
    """
    metrics = kernel_metrics(timing) | {"op": " ".join(dict.fromkeys(ops))}
    return _C.LaunchCost(
        time_ps=timing.time_ps,
        ddr_read_bytes=timing.ddr_read_bytes,
        ddr_write_bytes=timing.ddr_write_bytes,
        metrics={name: json.dumps(value) for name, value in metrics.items()},
        kernel=kernel,
    )


def kernel_metrics(timing: Timing) -> dict[str, float | int | str]:
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
    }

"""The modelled times in a dumped kernel's folder: `timing.json` and `perf/ideal_cycles.json`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import find_record
from torch_spyre.timing.launch_cost import kernel_metrics
from torch_spyre.timing.result import Timing

# Most expensive first.
_COST_CLASSES = ("matmul", "random", "transcendental", "divide", "simple")


def timing_entry(
    kernel: str, stage: int, specs: Sequence[OpSpec], card: str, timing: Timing
) -> dict[str, Any]:
    """Return the timing of a stage with its names, and with the units in the names of the fields.

    Utilisations are fractions from 0 to 1.
    """
    values = asdict(timing)
    renamed = {
        "busy_ps": values.pop("busy"),
        "utilisation_fraction": values.pop("utilisation"),
        "busiest_core_utilisation_fraction": values.pop("busiest_core"),
        "steps": [_step(step) for step in values.pop("steps")],
    }
    return {
        "kernel": kernel,
        "stage": stage,
        "ops": [spec.op for spec in specs],
        "card": card,
        "cores": max((spec.cores for spec in specs), default=0),
        **values,
        **renamed,
    }


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    return {("busy_ps" if key == "busy" else key): value for key, value in step.items()}


def ideal_cycles(kernel: str, specs: Sequence[OpSpec], timing: Timing) -> dict[str, Any]:
    """Return the cycles that the matrix unit would take for a stage without any wait.

    The category is the most expensive op of the stage. The kernel's entries add up.
    """
    return {
        "kernel": kernel,
        "op_category": min((spec.op for spec in specs), key=_rank, default=""),
        "ideal_cycles": kernel_metrics(timing)["ideal_cycles"],
    }


def _rank(op: str) -> int:
    record = find_record(op)
    return _COST_CLASSES.index(record.cost) if record is not None else len(_COST_CLASSES)

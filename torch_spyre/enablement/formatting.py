"""Format values and sentences that the terminal and the HTML report share."""

import math
from pathlib import Path

from torch_spyre.enablement.findings import Attempt, Findings, OpCase, StepTime

ESTIMATE = (
    "Device time is an estimate: the sum of the timing model's times for the kernels that were "
    "compiled for this model at its full size, on one card. Copies between host and card, "
    "queueing on the host and ops on the CPU are not included."
)


def parameters(count: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)


def seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def amount(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def attempt(result: Attempt | None) -> str:
    if result is None:
        return "not tried"
    if result.error is None:
        return f"{result.outcome}: {result.message}"
    text = f"{result.outcome}: {result.error:.2%} of {result.bound:.1%}"
    if result.fallbacks:
        text += f", {result.fallbacks} on the CPU"
    return text


def native_share(findings: Findings) -> str:
    """Return the share of native calls; rounded down, since 100% means all."""
    return f"{math.floor(100 * findings.native_share)}%"


def where(case: OpCase) -> str:
    """Return the modules and the line of the model that call an op."""
    file, _, line = case.location.rpartition(":")
    position = f"{Path(file).name}:{line}" if file else ""
    return ", ".join([*case.modules, *([position] if position else [])])


def rate(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def extrapolation(time: StepTime) -> str:
    """Return the time per layer from which the total was extrapolated, or an empty string."""
    added = time.seconds_per_layer.items()
    return ", ".join(f"{seconds(value)} for each of its {name}" for name, value in added)


def model_summary(findings: Findings) -> str:
    return (
        f"{findings.kind}, {parameters(findings.parameters)} parameters, "
        f"{amount(findings.weight_bytes)} of weights"
    )

"""Estimate the device time of a full-size model with the card's timing model.

Weights are uninitialized and kernels compute nothing: programs are compiled, and the estimate is
the sum of their modelled times. Copies and ops on the CPU are not included.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from torch_spyre import knobs
from torch_spyre.device import cards
from torch_spyre.enablement.findings import StepTime
from torch_spyre.enablement.model_source import ModelSource, RepeatedLayer, Step, run_steps
from torch_spyre.enablement.weights import move_to_card


class StepClock:
    """A callback for `run_steps` that collects the device time and counters of each step."""

    def __init__(self) -> None:
        self.times: list[StepTime] = []

    def __call__(self, step: Step, call: Callable[[], Any]) -> Any:
        before = _counters()
        result = call()
        after = _counters()
        spent = {name: after[name] - before[name] for name in after}
        self.times.append(
            StepTime(
                step=step.name,
                tokens=step.tokens,
                seconds=spent["device_time_ps"] * 1e-12,
                launches=spent["launches"],
                fallbacks=spent["fallbacks"],
                ddr_bytes=spent["ddr_read_bytes"] + spent["ddr_write_bytes"],
            )
        )
        return result


def _counters() -> dict[str, int]:
    cards.synchronize()
    return cards.counters()


def rounds(repeated: Sequence[RepeatedLayer]) -> int:
    """Return how many models `compiled_times` compiles."""
    return 1 + sum(kind.count > 1 for kind in repeated)


def compiled_times(
    source: ModelSource, batch: int, prompt: int, on_model_compiled: Callable[[], None]
) -> list[StepTime]:
    """Return the time of each step of the full model, extrapolated from small layer counts.

    The model is compiled with one layer of each kind, and again with a second layer of each kind in
    turn. The full model takes the first time plus, for every further layer, the difference that the
    second layer made.
    """
    kinds = list(source.repeated())
    single = {kind.name: 1 for kind in kinds}
    totals = _compiled(source, single if kinds else None, batch, prompt)
    base = list(totals)
    on_model_compiled()
    for kind in kinds:
        if kind.count == 1:
            continue
        with_second_layer = _compiled(source, {**single, kind.name: 2}, batch, prompt)
        totals = [
            _extrapolated(total, kind, first, second)
            for total, first, second in zip(totals, base, with_second_layer, strict=True)
        ]
        on_model_compiled()
    return totals


def _extrapolated(
    total: StepTime, kind: RepeatedLayer, one_layer: StepTime, two_layers: StepTime
) -> StepTime:
    """Return `total` with the cost of the further layers of a kind added."""
    further = kind.count - 1
    added = two_layers.seconds - one_layer.seconds
    return replace(
        total,
        seconds=total.seconds + further * added,
        launches=total.launches + further * (two_layers.launches - one_layer.launches),
        fallbacks=total.fallbacks + further * (two_layers.fallbacks - one_layer.fallbacks),
        ddr_bytes=total.ddr_bytes + further * (two_layers.ddr_bytes - one_layer.ddr_bytes),
        seconds_per_layer={**total.seconds_per_layer, kind.name: added},
    )


def _compiled(
    source: ModelSource, layers: dict[str, int] | None, batch: int, prompt: int
) -> list[StepTime]:
    model = move_to_card(source.build(layers))
    clock = StepClock()
    torch._dynamo.reset()
    compiled = torch.compile(model, dynamic=False)
    with torch.no_grad(), knobs.override(SPYRE_EMU_MODE="timing"):
        run_steps(compiled, source.steps(model, batch, prompt), "spyre", clock)
    return clock.times

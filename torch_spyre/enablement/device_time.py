"""Device time of a model at its full size, by the card's timing model.

No weight has a value, and no kernel computes: programs are compiled, and their device time is the
sum of what the timing model says of each. Copies and ops on the CPU are not in it.
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
    """Given to `run_steps`, it keeps what each step took on the device's clock."""

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
    """How many models `compiled_times` compiles."""
    return 1 + sum(kind.count > 1 for kind in repeated)


def compiled_times(
    source: ModelSource, batch: int, prompt: int, told: Callable[[], None]
) -> list[StepTime]:
    """Compiled as a whole with one layer of each kind, and again with one more of each in turn.

    The full model is the first plus, for every further layer, what one more had added.
    """
    kinds = list(source.repeated())
    one = {kind.name: 1 for kind in kinds}
    totals = _compiled(source, one if kinds else None, batch, prompt)
    base = list(totals)
    told()
    for kind in kinds:
        if kind.count == 1:
            continue
        more = _compiled(source, {**one, kind.name: 2}, batch, prompt)
        totals = [
            _with_layers(total, kind, first, second)
            for total, first, second in zip(totals, base, more, strict=True)
        ]
        told()
    return totals


def _with_layers(total: StepTime, kind: RepeatedLayer, one: StepTime, two: StepTime) -> StepTime:
    further = kind.count - 1
    added = two.seconds - one.seconds
    return replace(
        total,
        seconds=total.seconds + further * added,
        launches=total.launches + further * (two.launches - one.launches),
        fallbacks=total.fallbacks + further * (two.fallbacks - one.fallbacks),
        ddr_bytes=total.ddr_bytes + further * (two.ddr_bytes - one.ddr_bytes),
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

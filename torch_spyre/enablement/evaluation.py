"""The whole of `spyre enable` without showing anything: from a model to findings."""

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_spyre import knobs
from torch_spyre.cards import load_card
from torch_spyre.enablement import module_trials
from torch_spyre.enablement.capture import (
    Capture,
    first_line,
    silent_fallbacks,
    track_modules,
)
from torch_spyre.enablement.device_time import StepClock, compiled_times, rounds
from torch_spyre.enablement.findings import (
    VERDICTS,
    Findings,
    Mode,
    ModuleKind,
    StepTime,
    worst,
)
from torch_spyre.enablement.model_source import ModelSource, Step, run_steps
from torch_spyre.enablement.weights import move_to_card
from torch_spyre.ops.eager import use_kernels

# Words in a prompt that modules are tried with; their number decides no kernel's road.
_TRIED_PROMPT = 16


class Progress:
    """Told what is being done; this one shows nothing."""

    def begin(self, what: str, total: int | None) -> None:
        """A part of the work, with its number of steps if that is known."""

    def advance(self, what: str = "") -> None:
        """One step is done, or `what` is being looked at."""


def evaluate(
    source: ModelSource, *, mode: Mode, batch: int, prompt: int, attempts: bool, progress: Progress
) -> Findings:
    """Everything that can be found out about a model."""
    notes: list[str] = []
    with _quietly(), _kernels(), silent_fallbacks():
        full = source.build()
        kinds = _module_kinds(full)
        parameters = sum(each.numel() for each in full.parameters())
        held = sum(each.nbytes for each in full.parameters())
        capture, times = _captured(source, full, batch, prompt, notes, progress)
        del full
        cases = list(capture.cases.values())
        _judge(kinds, capture, mode)
        if mode == "compiled":
            times = _compiled(source, batch, prompt, times, notes, progress)
        if attempts:
            _attempt(source, kinds, capture, mode, notes, progress)
    return Findings(
        name=source.name,
        kind=source.kind,
        source=source.source,
        mode=mode,
        batch=batch,
        prompt=prompt,
        parameters=parameters,
        weight_bytes=held,
        card=load_card().identity.name,
        torch_version=torch.__version__,
        ops=cases,
        modules=list(kinds.values()),
        times=times,
        notes=notes,
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """What warnings and logs would say is among the findings."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _kernels() -> Iterator[None]:
    """Eager ops on the card, also where TORCH_SPYRE_EAGER says otherwise."""
    use_kernels(True)
    try:
        yield
    finally:
        use_kernels(knobs.execution.eager == "native")


def _module_kinds(model: torch.nn.Module) -> dict[str, ModuleKind]:
    """From the outside in, as a reader expects them."""
    kinds: dict[str, ModuleKind] = {}
    counts = Counter(type(part).__name__ for part in model.modules())
    called = module_trials.kinds_of(model)
    for path, part in model.named_modules():
        name = type(part).__name__
        if name in kinds or name not in called:
            continue
        size = sum(each.numel() for each in part.parameters())
        kinds[name] = ModuleKind(name, counts[name], size, path or "(the model)", "native", {})
    return kinds


def _captured(
    source: ModelSource,
    model: torch.nn.Module,
    batch: int,
    prompt: int,
    notes: list[str],
    progress: Progress,
) -> tuple[Capture, list[StepTime]]:
    progress.begin("Asking the card about each op", None)
    stack: list[str] = []
    clock = StepClock()
    capture = Capture(stack, progress.advance)

    def around(step: Step, call: Callable[[], Any]) -> Any:
        capture.step = step.name
        with capture:
            return clock(step, call)

    steps = source.steps(model, batch, prompt)
    move_to_card(model)
    timing_only = knobs.override(SPYRE_EMU_MODE="timing")
    try:
        with torch.no_grad(), timing_only, track_modules(stack, model):
            run_steps(model, steps, "spyre", around)
    except Exception as error:  # any: a model that stops is a finding, and so is what came before
        where = f" in {stack[-1]}" if stack else ""
        notes.append(
            f"The model stopped{where} on the card, so later ops are not listed: "
            f"{type(error).__name__}: {first_line(error)}"
        )
    return capture, clock.times


def _judge(kinds: dict[str, ModuleKind], capture: Capture, mode: Mode) -> None:
    for name, kind in kinds.items():
        verdicts = [capture.cases[key].verdict(mode) for key in capture.cases_of[name]]
        kind.verdict = worst(verdicts)
        kind.cases = {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def _compiled(
    source: ModelSource,
    batch: int,
    prompt: int,
    eager: list[StepTime],
    notes: list[str],
    progress: Progress,
) -> list[StepTime]:
    progress.begin("Compiling layers at full size", rounds(source.repeated()))
    try:
        return compiled_times(source, batch, prompt, progress.advance)
    except Exception as error:  # any: a model that does not compile is a finding
        notes.append(
            "The compiler did not get through the full-size model; times are those of eager ops: "
            f"{type(error).__name__}: {first_line(error)}"
        )
        return eager


def _attempt(
    source: ModelSource,
    kinds: dict[str, ModuleKind],
    capture: Capture,
    mode: Mode,
    notes: list[str],
    progress: Progress,
) -> None:
    small = source.small()
    if small is None:
        notes.append(
            "Modules were not tried: the model is too large, or its weights have no values."
        )
        return
    step = source.steps(small, 1, _TRIED_PROMPT)[0]
    names = [name for name in module_trials.kinds_of(small) if name in kinds]
    progress.begin("Trying modules on the card", len(names))
    for name in names:
        cases = [capture.cases[key] for key in capture.cases_of[name]]
        ops = sum(case.how != "view" and step.name in case.calls for case in cases)
        kinds[name].attempt = module_trials.try_kind(small, name, step, mode, ops)
        progress.advance(name)

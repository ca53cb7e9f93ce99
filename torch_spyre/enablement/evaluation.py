"""Evaluate a model: run every analysis of `spyre enable` and return the findings."""

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
    track_modules,
)
from torch_spyre.enablement.device_time import StepClock, compiled_times, rounds
from torch_spyre.enablement.findings import (
    VERDICTS,
    Findings,
    Mode,
    ModuleKind,
    StepTime,
    Stop,
    worst,
)
from torch_spyre.enablement.function_calls import FunctionCalls
from torch_spyre.enablement.model_source import ModelSource, Step, run_steps
from torch_spyre.enablement.weights import move_to_card
from torch_spyre.ops.eager import use_kernels
from torch_spyre.ops.fallback_policy import fallback

# Tokens of the prompt for module trials; the length does not change which kernels are native.
_TRIAL_PROMPT = 16


class Progress:
    """Receives progress events; this base class ignores them."""

    def begin(self, stage: str, total: int | None) -> None:
        """Begin a stage of `total` steps, or of an unknown number of them."""

    def advance(self, item: str = "") -> None:
        """Complete one step; `item` names what is being processed."""


def evaluate(
    source: ModelSource, *, mode: Mode, batch: int, prompt: int, attempts: bool, progress: Progress
) -> Findings:
    """Return the findings about a model; errors of the model itself become notes."""
    notes: list[str] = []
    with _quietly(), _kernels(), fallback("silent"):
        full = source.build()
        kinds = _module_kinds(full)
        parameters = sum(tensor.numel() for tensor in full.parameters())
        weight_bytes = sum(tensor.nbytes for tensor in full.parameters())
        capture, times, stop = _capture_ops(source, full, batch, prompt, notes, progress)
        del full
        if mode == "compiled":
            times = _time_compiled(source, batch, prompt, capture, times, notes, progress)
        cases = list(capture.cases.values())
        _set_verdicts(kinds, capture, mode)
        if attempts:
            _try_modules(source, kinds, capture, mode, notes, progress)
    return Findings(
        name=source.name,
        kind=source.kind,
        source=source.source,
        mode=mode,
        batch=batch,
        prompt=prompt,
        parameters=parameters,
        weight_bytes=weight_bytes,
        card=load_card().identity.name,
        torch_version=torch.__version__,
        ops=cases,
        modules=list(kinds.values()),
        times=times,
        notes=notes,
        stop=stop,
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress warnings and logs, whose content is part of the findings."""
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
    """Run eager ops on the card even if TORCH_SPYRE_EAGER disables them."""
    use_kernels(True)
    try:
        yield
    finally:
        use_kernels(knobs.execution.eager == "native")


def _module_kinds(model: torch.nn.Module) -> dict[str, ModuleKind]:
    """Return the module classes of a model, outer modules first."""
    kinds: dict[str, ModuleKind] = {}
    counts = Counter(type(module).__name__ for module in model.modules())
    called = module_trials.kinds_of(model)
    for path, module in model.named_modules():
        name = type(module).__name__
        if name in kinds or name not in called:
            continue
        size = sum(tensor.numel() for tensor in module.parameters())
        kinds[name] = ModuleKind(name, counts[name], size, path or "(the model)", "native", {})
    return kinds


def _capture_ops(
    source: ModelSource,
    model: torch.nn.Module,
    batch: int,
    prompt: int,
    notes: list[str],
    progress: Progress,
) -> tuple[Capture, list[StepTime], Stop | None]:
    progress.begin("Running each op on the card", None)
    stack: list[str] = []
    clock = StepClock()
    capture = Capture(stack, progress.advance)

    def run_captured(step: Step, call: Callable[[], Any]) -> Any:
        capture.step = step.name
        with FunctionCalls(capture), capture:
            return clock(step, call)

    steps = source.steps(model, batch, prompt)
    move_to_card(model)
    timing_only = knobs.override(SPYRE_EMU_MODE="timing")
    try:
        with torch.no_grad(), timing_only, track_modules(stack, model):
            run_steps(model, steps, "spyre", run_captured)
    except Exception as error:  # any: a model that stops is a finding, as are the ops before it
        stop = capture.record_stop(error)
        module = f" in {stop.module}" if stop.module else ""
        location = f" at {stop.location}" if stop.location else ""
        notes.append(
            f"The model stopped{module}{location} on the card, so later ops are not listed: "
            f"{stop.error}"
        )
        return capture, clock.times, stop
    return capture, clock.times, None


def _set_verdicts(kinds: dict[str, ModuleKind], capture: Capture, mode: Mode) -> None:
    for name, kind in kinds.items():
        verdicts = [capture.cases[key].verdict(mode) for key in capture.cases_of[name]]
        kind.verdict = worst(verdicts)
        kind.cases = {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def _time_compiled(
    source: ModelSource,
    batch: int,
    prompt: int,
    capture: Capture,
    eager: list[StepTime],
    notes: list[str],
    progress: Progress,
) -> list[StepTime]:
    progress.begin("Compiling layers at full size", rounds(source.repeated()))
    try:
        times = compiled_times(source, batch, prompt, progress.advance)
    except Exception as error:  # any: a model that does not compile is a finding
        message = f"{type(error).__name__}: {first_line(error)}"
        notes.append(
            f"The full-size model could not be compiled; times are those of eager ops: {message}"
        )
        capture.record_compiler_error(message)
        return eager
    capture.record_compiled(sum(time.fallbacks for time in times))
    return times


def _try_modules(
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
            "Modules were not tried: the model is too large, or its weights are on the meta device."
        )
        return
    step = source.steps(small, 1, _TRIAL_PROMPT)[0]
    names = [name for name in module_trials.kinds_of(small) if name in kinds]
    progress.begin("Trying modules on the card", len(names))
    for name in names:
        cases = [capture.cases[key] for key in capture.cases_of[name]]
        num_ops = sum(case.how != "view" and step.name in case.calls for case in cases)
        kinds[name].attempt = module_trials.try_kind(small, name, step, mode, num_ops)
        progress.advance(name)

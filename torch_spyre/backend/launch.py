"""Launches of programs: on the current stream, asynchronous, timed."""

from collections.abc import Sequence
from typing import Any

from torch_spyre import _C, knobs
from torch_spyre.backend.arrays import ArrayArgument
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import load_card
from torch_spyre.timing import Timing, estimate
from torch_spyre.timing.from_counts import record_of


def launch(
    program: Program,
    arrays: Sequence[ArrayArgument],
    scalars: Sequence[int],
    fixed: Sequence[ArrayArgument] = (),
) -> None:
    """Queues the program. Its errors surface at the next synchronisation."""
    sizes = tuple(array.bytes for array in arrays)
    mode = knobs.emulator.mode
    counts = _counts(program, sizes, scalars)
    time_ps = read = written = 0
    if mode != "functional":
        timing = timing_of(program, sizes, scalars)
        time_ps, read, written = (
            timing.time_ps,
            timing.ddr_read_bytes,
            timing.ddr_write_bytes,
        )
    _C.launch_program(
        _loaded(program),
        [array.memory for array in arrays],
        list(sizes),
        list(scalars),
        [buffer.memory for buffer in fixed],
        time_ps,
        read,
        written,
        mode != "timing",
        counts["conflict"],
        knobs.emulator.inject,
        float(knobs.emulator.watchdog_seconds),
    )


def timing_of(program: Program, sizes: Sequence[int], scalars: Sequence[int]) -> Timing:
    """What the program takes with arrays of these sizes in bytes (-1: unknown)."""
    card = load_card()
    key = ("timing", tuple(sizes), tuple(scalars), card.path, card.timing)
    if key not in program.timings:
        record = record_of(program.content, _counts(program, sizes, scalars))
        program.timings[key] = estimate(record, card)
    timing: Timing = program.timings[key]
    return timing


def _counts(program: Program, sizes: Sequence[int], scalars: Sequence[int]) -> dict[str, Any]:
    key = ("counts", tuple(sizes), tuple(scalars))
    if key not in program.timings:
        program.timings[key] = _C.record_program(program.file, list(sizes), list(scalars))
    counts: dict[str, Any] = program.timings[key]
    return counts


def _loaded(program: Program) -> "_C.LoadedProgram":
    card = _C.current_device()
    if card not in program.loaded:
        program.loaded[card] = _C.load_program(program.file, card)
    loaded: _C.LoadedProgram = program.loaded[card]
    return loaded

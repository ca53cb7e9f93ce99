"""Compiled programs on the current card: loaded once, timed once for arguments of one kind, run."""

from collections.abc import Sequence
from typing import Any

from torch_spyre import _C
from torch_spyre.backend.arrays import ArrayArgument
from torch_spyre.backend.launch import LaunchCost, launch
from torch_spyre.backend.program.program import Program
from torch_spyre.backend.program.recent import keep
from torch_spyre.cards import load_card
from torch_spyre.timing import Timing, estimate
from torch_spyre.timing.from_counts import record_of


def execute(
    program: Program,
    arrays: Sequence[ArrayArgument],
    scalars: Sequence[int],
    fixed: Sequence[ArrayArgument] = (),
) -> None:
    """Queues the program on the current stream. Its errors surface at the next synchronisation."""
    sizes = [array.bytes for array in arrays]
    memories = _memories(arrays)
    timing = timing_of(program, sizes, scalars, memories)
    launch(
        _loaded(program),
        [array.memory for array in arrays],
        sizes,
        scalars,
        [buffer.memory for buffer in fixed],
        cost=LaunchCost(timing.time_ps, timing.ddr_read_bytes, timing.ddr_write_bytes),
        ordered=_counts(program, sizes, scalars, memories)["conflict"],
    )


def _memories(arrays: Sequence[ArrayArgument]) -> tuple[int, ...]:
    """Equal numbers for arrays in the same memory, where cores may meet across arguments."""
    storages = [array.memory.untyped_storage().data_ptr() for array in arrays]
    return tuple(storages.index(storage) for storage in storages)


def timing_of(
    program: Program,
    sizes: Sequence[int],
    scalars: Sequence[int],
    memories: Sequence[int] = (),
) -> Timing:
    """What the program takes with arrays of these sizes in bytes (-1: unknown).

    Arrays with equal numbers in `memories` are in the same memory; without any, all are apart.
    """
    card = load_card()
    key = ("timing", tuple(sizes), tuple(scalars), tuple(memories), card)
    timing: Timing | None = program.timings.get(key)
    if timing is None:
        record = record_of(program.content, _counts(program, sizes, scalars, memories))
        timing = keep(program.timings, key, estimate(record, card))
    return timing


def conflicts(program: Program, sizes: Sequence[int], memories: Sequence[int] = ()) -> bool:
    """Do cores meet in memory, so that they must run in order? `memories` as for `timing_of`."""
    found: bool = _counts(program, sizes, (), memories)["conflict"]
    return found


def _counts(
    program: Program, sizes: Sequence[int], scalars: Sequence[int], memories: Sequence[int]
) -> dict[str, Any]:
    constants = load_card().timing
    lanes = (constants.SFP_LANES_16, constants.SFP_LANES_32)
    key = ("counts", tuple(sizes), tuple(scalars), tuple(memories), lanes)
    counts: dict[str, Any] | None = program.timings.get(key)
    if counts is None:
        counts = _C.record_program(program.file, sizes, scalars, lanes, memories)
        keep(program.timings, key, counts)
    return counts


def _loaded(program: Program) -> "_C.LoadedProgram":
    card = _C.current_device()
    if card not in program.loaded:
        program.loaded[card] = _C.load_program(program.file, card)
    loaded: _C.LoadedProgram = program.loaded[card]
    return loaded

"""Executes compiled programs on the current card.

A program is loaded once per card, and its timing is computed once for each size of its arguments.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from torch_spyre import _C, knobs
from torch_spyre.backend.launch import launch
from torch_spyre.backend.loaded_kernels import LoadedKernel, add_kernel
from torch_spyre.backend.program.bounded_cache import add_to_cache
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import load_card
from torch_spyre.debugging.verification import count_unverified
from torch_spyre.timing import ProgramRecord, Timing, estimate
from torch_spyre.timing.counts import InstructionCounts
from torch_spyre.timing.from_counts import record_of
from torch_spyre.timing.launch_cost import launch_cost


class BoundArray(Protocol):
    """Device memory that an array argument is bound to, and how many bytes of it are the array."""

    @property
    def memory(self) -> torch.Tensor: ...

    @property
    def bytes(self) -> int: ...


def execute(
    program: Program,
    arrays: Sequence[BoundArray],
    scalars: Sequence[int],
    fixed: Sequence[BoundArray] = (),
) -> None:
    """Launch a program on the current stream; the next synchronisation raises its errors."""
    sizes = [array.bytes for array in arrays]
    memories = _memory_ids(arrays)
    timing = timing_of(program, sizes, scalars, memories)
    launch(
        _loaded_program(program),
        [array.memory for array in arrays],
        sizes,
        scalars,
        [buffer.memory for buffer in fixed],
        cost=launch_cost(
            timing,
            (program.content.name,),
            kernel=_kernel_number(program, sizes, scalars, memories),
        ),
        ordered=_recorded_counts(program, sizes, scalars, memories)["conflict"],
    )


def _kernel_number(
    program: Program, sizes: Sequence[int], scalars: Sequence[int], memories: Sequence[int]
) -> int:
    """Return the number of a program with these arguments, which the program's cache keeps."""
    key = ("kernel", tuple(sizes), tuple(scalars), tuple(memories))
    kernel: LoadedKernel | None = program.timings.get(key)
    if kernel is None:
        kernel = add_kernel(program, sizes, scalars, (program.content.name,), memories)
        kernel = add_to_cache(program.timings, key, kernel)
    return kernel.number


def _memory_ids(arrays: Sequence[BoundArray]) -> tuple[int, ...]:
    """Return an id per array, equal for arrays of one storage, where cores may conflict."""
    storages = [array.memory.untyped_storage().data_ptr() for array in arrays]
    return tuple(storages.index(storage) for storage in storages)


def timing_of(
    program: Program,
    sizes: Sequence[int],
    scalars: Sequence[int],
    memories: Sequence[int] = (),
) -> Timing:
    """Return the estimated timing of a program with arrays of these sizes in bytes (-1: unknown).

    Arrays with equal ids in `memories` are in the same memory; without ids, none alias.
    """
    card = load_card()
    key = ("timing", tuple(sizes), tuple(scalars), tuple(memories), card)
    timing: Timing | None = program.timings.get(key)
    if timing is None:
        record = program_record(program, sizes, scalars, memories)
        timing = add_to_cache(program.timings, key, estimate(record, card))
    return timing


def program_record(
    program: Program,
    sizes: Sequence[int],
    scalars: Sequence[int],
    memories: Sequence[int] = (),
) -> ProgramRecord:
    """Return the record that `timing_of` estimates, with the same arguments."""
    return record_of(program.content, _recorded_counts(program, sizes, scalars, memories))


def has_conflicts(
    program: Program,
    sizes: Sequence[int],
    memories: Sequence[int] = (),
    scalars: Sequence[int] = (),
) -> bool:
    """Return whether cores access the same memory, so that they must run in order.

    `memories` is as in `timing_of`.
    """
    conflict: bool = _recorded_counts(program, sizes, scalars, memories)["conflict"]
    return conflict


def counts_by_core(
    program: Program,
    sizes: Sequence[int],
    scalars: Sequence[int],
    memories: Sequence[int] = (),
) -> list[InstructionCounts]:
    """Return the counts of the executed instructions, with those of each core.

    `memories` is as in `timing_of`.
    """
    lanes = _vector_lanes()
    counts = _C.record_program(program.file, sizes, scalars, lanes, memories, by_core=True)
    instructions: list[InstructionCounts] = counts["instructions"]
    return instructions


def _recorded_counts(
    program: Program, sizes: Sequence[int], scalars: Sequence[int], memories: Sequence[int]
) -> dict[str, Any]:
    lanes = _vector_lanes()
    key = ("counts", tuple(sizes), tuple(scalars), tuple(memories), lanes)
    counts: dict[str, Any] | None = program.timings.get(key)
    if counts is None:
        counts = _C.record_program(program.file, sizes, scalars, lanes, memories)
        counts = add_to_cache(program.timings, key, counts)
    return counts


def _vector_lanes() -> tuple[int, int]:
    constants = load_card().timing
    return constants.SFP_LANES_16, constants.SFP_LANES_32


def _loaded_program(program: Program) -> "_C.LoadedProgram":
    card = _C.current_device()
    if card not in program.loaded:
        if knobs.execution.verify:
            count_unverified(program.name, "a kernel written in KTIR has no reference")
        program.loaded[card] = _C.load_program(program.file, card)
    loaded: _C.LoadedProgram = program.loaded[card]
    return loaded

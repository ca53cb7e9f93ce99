"""Launches loaded programs on cards."""

from collections.abc import Sequence

import torch

from torch_spyre import _C, knobs

FREE = _C.LaunchCost()


def launch_options() -> tuple[str, str, float, bool, bool]:
    """Return the knobs of every launch: mode, fault, timeout, count checks, blocking."""
    emulator = knobs.emulator
    return (
        emulator.mode,
        emulator.inject,
        emulator.watchdog_seconds,
        emulator.check_counts,
        knobs.execution.launch_blocking,
    )


def launch(
    program: _C.LoadedProgram,
    arrays: Sequence[torch.Tensor],
    array_bytes: Sequence[int],
    scalars: Sequence[int] = (),
    fixed: Sequence[torch.Tensor] = (),
    *,
    cost: _C.LaunchCost = FREE,
    ordered: bool = False,
) -> None:
    """Launch a program on the current stream of its card.

    `array_bytes` are exact sizes: beyond them a kernel reads zeros, and its writes are dropped.
    `scalars` are register bits, `fixed` are the tensors of the program's fixed buffers. `ordered`
    runs the cores sequentially, for kernels whose cores access the same memory. The next
    synchronisation raises errors of the kernel.
    """
    mode, inject, watchdog_seconds, check_counts, blocking = launch_options()
    charged = FREE if mode == "functional" else cost
    _C.launch_program(
        program,
        list(arrays),
        list(array_bytes),
        list(scalars),
        list(fixed),
        charged,
        execute=mode != "timing",
        ordered=ordered,
        inject=inject,
        watchdog_seconds=watchdog_seconds,
        check_counts=check_counts,
        blocking=blocking,
    )

"""Programs onto cards, and their launches."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torch_spyre import _C, knobs


@dataclass(frozen=True)
class LaunchCost:
    """What one launch costs on the card, as the timing model has it."""

    time_ps: int = 0
    ddr_read_bytes: int = 0
    ddr_write_bytes: int = 0


FREE = LaunchCost()


def launch_options() -> tuple[str, str, float]:
    """What the knobs say about every launch: mode, what to spoil, seconds of the watchdog."""
    emulator = knobs.emulator
    return emulator.mode, emulator.inject, emulator.watchdog_seconds


def launch(
    program: _C.LoadedProgram,
    arrays: Sequence[torch.Tensor],
    array_bytes: Sequence[int],
    scalars: Sequence[int] = (),
    fixed: Sequence[torch.Tensor] = (),
    *,
    cost: LaunchCost = FREE,
    ordered: bool = False,
) -> None:
    """Queues one execution on the current stream of the program's card.

    `array_bytes` are exact: beyond them a kernel reads zeros and writes nothing. `scalars` are the
    bits of registers, `fixed` is memory for the program's fixed buffers. `ordered` runs one core
    after the other, for kernels whose cores touch the same memory. What goes wrong in the kernel is
    raised by the next synchronisation.
    """
    mode, inject, watchdog_seconds = launch_options()
    charged = FREE if mode == "functional" else cost
    _C.launch_program(
        program,
        list(arrays),
        list(array_bytes),
        list(scalars),
        list(fixed),
        charged.time_ps,
        charged.ddr_read_bytes,
        charged.ddr_write_bytes,
        execute=mode != "timing",
        ordered=ordered,
        inject=inject,
        watchdog_seconds=watchdog_seconds,
    )

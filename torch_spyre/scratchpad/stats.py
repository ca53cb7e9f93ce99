"""Statistics of the scratchpads for the kernels of this process, behind `torch.spyre`."""

from dataclasses import dataclass

from torch_spyre.backend.loaded_kernels import LoadedKernel, loaded_kernels
from torch_spyre.cards import load_card
from torch_spyre.scratchpad.cores import core_groups
from torch_spyre.scratchpad.figures import ScratchpadFigures


@dataclass(frozen=True)
class CoreScratchpad:
    """The scratchpad of one core while it runs a kernel."""

    core: int
    figures: ScratchpadFigures


@dataclass(frozen=True)
class KernelScratchpad:
    """The scratchpads of all cores while they run a kernel; `capacity` is in bytes.

    `high_water` is the end of the last byte of a scratchpad that the kernel uses.
    """

    kernel: str
    ops: tuple[str, ...]
    capacity: int
    high_water: int
    cores: tuple[CoreScratchpad, ...]


def loaded_scratchpads(kernel: str | None = None) -> list[KernelScratchpad]:
    """Return the statistics of the kernels of this process, or of those with this name."""
    return [
        _of_kernel(loaded) for loaded in loaded_kernels() if kernel is None or loaded.name == kernel
    ]


def _of_kernel(kernel: LoadedKernel) -> KernelScratchpad:
    capacity = load_card().compute.lx_bytes
    groups = core_groups(kernel.program, kernel.array_bytes, kernel.scalars)
    cores = [
        CoreScratchpad(core, figures)
        for group in groups
        for figures in (group.occupancy.figures(capacity),)
        for core in group.cores
    ]
    return KernelScratchpad(
        kernel.name,
        kernel.ops,
        capacity,
        max((group.occupancy.high_water for group in groups), default=0),
        tuple(sorted(cores, key=lambda entry: entry.core)),
    )

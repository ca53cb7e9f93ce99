"""Scratchpad memory (LX) of the cores: statistics of compiled kernels."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_spyre.scratchpad.stats import KernelScratchpad


def scratchpad_stats(kernel: str | None = None) -> "list[KernelScratchpad]":
    """Return the use of the scratchpads by each kernel of this process, core by core.

    Kernels are those of compiled graphs and of eager ops that can be launched, in the order in
    which they were compiled; `kernel` selects those of one name. Shares are between 0 and 1:
    `peak` and `average` of the capacity, `fragmentation` of the free bytes, and `reuse_rate` of the
    bytes of all tensors.
    """
    # Imported here: it needs the compiler.
    from torch_spyre.scratchpad.stats import loaded_scratchpads

    return loaded_scratchpads(kernel)

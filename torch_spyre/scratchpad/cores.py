"""The occupancy of every core of a program: cores that execute the same instructions share it."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_spyre.backend.execution import counts_by_core
from torch_spyre.backend.program.program import Program
from torch_spyre.scratchpad.occupancy import Occupancy, occupancy
from torch_spyre.text_reports import ranges


@dataclass(frozen=True)
class CoreGroup:
    """Cores whose scratchpads hold the same tensors at the same addresses."""

    cores: tuple[int, ...]
    occupancy: Occupancy

    @property
    def name(self) -> str:
        """Return the cores as text, such as `cores 0-3, 8`."""
        noun = "core" if len(self.cores) == 1 else "cores"
        return f"{noun} {ranges(self.cores)}"


def core_groups(
    program: Program, array_bytes: Sequence[int], scalars: Sequence[int] = ()
) -> list[CoreGroup]:
    """Return the groups of a program's cores, by the first core of each."""
    num_cores = 1
    for size in program.content.grid:
        num_cores *= size
    executed: list[set[int]] = [set() for _ in range(num_cores)]
    for counts in counts_by_core(program, array_bytes, scalars):
        for core, executions in enumerate(counts["by_core"]["executions"]):
            if executions:
                executed[core].add(counts["index"])
    groups: dict[frozenset[int], list[int]] = {}
    for core, instructions in enumerate(executed):
        groups.setdefault(frozenset(instructions), []).append(core)
    return [
        CoreGroup(tuple(cores), occupancy(program.content, instructions))
        for instructions, cores in groups.items()
    ]

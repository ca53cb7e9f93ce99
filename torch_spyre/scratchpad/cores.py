"""The occupancy of every core of a program: cores that execute the same instructions share it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

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
    executions: list[dict[int, int]] = [{} for _ in range(prod(program.content.grid))]
    for counts in counts_by_core(program, array_bytes, scalars):
        for core, number in enumerate(counts["by_core"]["executions"]):
            if number:
                executions[core][counts["index"]] = number
    # Cores that execute the same need not be analysed twice, and others may share a picture.
    known: dict[frozenset[tuple[int, int]], Occupancy] = {}
    groups: dict[Occupancy, list[int]] = {}
    for core, executed in enumerate(executions):
        key = frozenset(executed.items())
        if key not in known:
            known[key] = occupancy(program.content, executed)
        groups.setdefault(known[key], []).append(core)
    return [CoreGroup(tuple(cores), shared) for shared, cores in groups.items()]

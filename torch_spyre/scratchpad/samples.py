"""The use of the scratchpad over the time of a kernel, for the counter `LX bytes` in traces."""

from functools import lru_cache

from torch_spyre.backend.execution import timing_of
from torch_spyre.backend.loaded_kernels import kernel_numbered
from torch_spyre.scratchpad.cores import core_groups
from torch_spyre.timing.from_counts import instruction_index


@lru_cache(maxsize=1024)
def samples(kernel: int) -> list[tuple[float, int]]:
    """Return shares of the time of a kernel, and the bytes that are in use from then on.

    They are those of the core with the highest peak; `kernel` is its number in
    `backend.loaded_kernels`. A kernel that no longer exists has no samples.
    """
    loaded = kernel_numbered(kernel)
    if loaded is None:
        return []
    program = loaded.program
    timing = timing_of(program, loaded.array_bytes, loaded.scalars)
    groups = core_groups(program, loaded.array_bytes, loaded.scalars)
    busiest = max(groups, key=lambda group: max(group.occupancy.occupied_bytes, default=0))
    occupied = dict(zip(busiest.occupancy.positions, busiest.occupancy.occupied_bytes, strict=True))
    result: list[tuple[float, int]] = []
    for step in timing.steps:
        used = occupied.get(instruction_index(step.name))
        if used is None or not timing.time_ps:
            continue
        if not result or result[-1][1] != used:
            result.append((step.start_ps / timing.time_ps, used))
    return [*result, (1.0, 0)] if result else []

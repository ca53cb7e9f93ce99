"""The counts of one instruction, as the recorder returns them (csrc/emulator/engine/record.h)."""

from typing import NotRequired, TypedDict

# The sum over the chip, and the count of the busiest core.
Count = tuple[int, int]


class InstructionCounts(TypedDict):
    """Counts of one instruction; `index` is its position in the program."""

    index: int
    cores: int
    executions: Count
    elements: Count
    lanes: Count
    reduced_sticks: Count
    macs: Count
    exchanges: Count
    batch: int
    rows: int
    columns: int
    inner: int
    scratchpad_bytes: Count
    remote_bytes: Count
    device_bytes: Count
    distinct_device_bytes: int
    unique_device_bytes: int
    device_runs: int
    index_bytes: Count
    index_runs: int
    # By counter, the count of each core; only if requested.
    by_core: NotRequired[dict[str, list[int]]]

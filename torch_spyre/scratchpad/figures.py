"""Figures of the use of a scratchpad, from the live allocations at each node of a program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Allocation:
    """Bytes [`begin`, `end`) of a scratchpad."""

    begin: int
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class ScratchpadFigures:
    """The use of a scratchpad over a program.

    `peak` and `average` are shares of the capacity, over the nodes of the program. `fragmentation`
    is the share of free bytes outside of the largest free range, over all nodes. `reuse_rate` is
    the share of the bytes of all tensors that are at addresses which another tensor has as well.
    """

    peak_bytes: int
    peak: float
    average: float
    fragmentation: float
    reuse_rate: float


def figures(
    nodes: Sequence[Sequence[Allocation]], tensors: Iterable[Allocation], capacity: int
) -> ScratchpadFigures:
    """Return the figures of a program; `nodes` are the live allocations at each node.

    Allocations of a node do not overlap, those of different tensors may.
    """
    sums = [sum(allocation.bytes for allocation in node) for node in nodes]
    peak_bytes = max(sums, default=0)
    free = [capacity - used for used in sums]
    unusable = [
        free_bytes - _largest_gap(node, capacity)
        for node, free_bytes in zip(nodes, free, strict=True)
    ]
    placed = list(tensors)
    total = sum(tensor.bytes for tensor in placed)
    return ScratchpadFigures(
        peak_bytes,
        _share(peak_bytes, capacity),
        _share(sum(sums), capacity * len(nodes)),
        _share(sum(unusable), sum(free)),
        _share(total - _union_bytes(placed), total),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _largest_gap(node: Sequence[Allocation], capacity: int) -> int:
    largest = position = 0
    for allocation in sorted(node, key=lambda entry: entry.begin):
        largest = max(largest, allocation.begin - position)
        position = max(position, allocation.end)
    return max(largest, capacity - position)


def _union_bytes(allocations: Iterable[Allocation]) -> int:
    total = position = 0
    for allocation in sorted(allocations, key=lambda entry: entry.begin):
        begin = max(allocation.begin, position)
        total += max(0, allocation.end - begin)
        position = max(position, allocation.end)
    return total

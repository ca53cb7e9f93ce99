"""Allocates every buffer in the scratchpad.

A buffer is live from its first access to its last; one that is accessed inside and outside a loop,
or carried by it, is live while the loop runs. Buffers with overlapping live ranges do not overlap
in memory. An elementwise op or a matmul writes over an operand that is dead afterwards if it can.

If the capacity allows, the address range of a matmul's right operand is not reused for another
buffer: the emulator need not copy a tile to the scratchpad if only matmuls read it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from torch_spyre.backend.lowering.liveness import BufferGroup, buffer_groups
from torch_spyre.backend.lowering.nodes import Matmul, Node, regions_of, yielded_by
from torch_spyre.backend.lowering.values import Buffer
from torch_spyre.constants import BYTES_IN_STICK


@dataclass(frozen=True)
class Allocation:
    """Addresses of buffers, the bytes in use at the peak, and the live buffers there.

    `peak_buffers` are sorted by size, largest first.
    """

    addresses: dict[Buffer, int]
    peak: int
    peak_buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class Slot:
    """The address range [low, high) that a group occupies from node `start` to node `end`."""

    low: int
    high: int
    start: int
    end: int


def allocate(nodes: list[Node], capacity: int) -> Allocation:
    """Return addresses for the buffers of a kernel; the peak may exceed the capacity."""
    groups = buffer_groups(nodes)
    slots = _allocate_groups(_with_exclusive_right_operands(groups, nodes))
    if _peak(slots) > capacity:
        slots = _allocate_groups(groups)
    addresses = {buffer: slot.low for group, slot in slots.items() for buffer in group.buffers}
    peak_buffers = tuple(group.buffers[0] for group in _groups_at_peak(groups))
    return Allocation(addresses, _peak(slots), peak_buffers)


def allocate_separately(nodes: list[Node]) -> Allocation:
    """Return an address of its own for every buffer."""
    addresses: dict[Buffer, int] = {}
    end = 0
    for buffer in dict.fromkeys(_buffers_of(nodes)):
        addresses[buffer] = end
        end += -(-buffer.bytes // BYTES_IN_STICK) * BYTES_IN_STICK
    largest_first = sorted(addresses, key=lambda buffer: -buffer.bytes)
    return Allocation(addresses, end, tuple(largest_first))


def _buffers_of(nodes: Iterable[Node]) -> Iterator[Buffer]:
    """Yield the buffers that nodes and their regions access."""
    for node in nodes:
        yield from node.reads()
        yield from node.writes()
        yield from yielded_by(node)
        for region in regions_of(node):
            yield from _buffers_of(region)


def _with_exclusive_right_operands(
    groups: list[BufferGroup], nodes: list[Node]
) -> list[BufferGroup]:
    """Return the groups with right operands of matmuls live during the whole kernel."""
    operands = {node.b.buffer for node in _all_nodes(nodes) if isinstance(node, Matmul)}
    end = max((group.end for group in groups), default=0)
    return [
        group if operands.isdisjoint(group.buffers) else replace(group, start=0, end=end)
        for group in groups
    ]


def _all_nodes(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for region in regions_of(node):
            yield from _all_nodes(region)


def _allocate_groups(groups: list[BufferGroup]) -> dict[BufferGroup, Slot]:
    """Return the first-fit allocation with the lowest peak among several orders of groups."""
    lower_bound = sum(map(_size, _groups_at_peak(groups)))
    best: dict[BufferGroup, Slot] | None = None
    for order in (
        sorted(groups, key=lambda group: (group.start, -group.bytes)),
        sorted(groups, key=lambda group: (-group.bytes, group.start)),
        sorted(groups, key=lambda group: (group.start - group.end, -group.bytes)),
    ):
        slots = _first_fit(order)
        if best is None or _peak(slots) < _peak(best):
            best = slots
        if _peak(best) == lower_bound:
            break
    assert best is not None
    return best


def _size(group: BufferGroup) -> int:
    """Return the size of a group in bytes, rounded up to whole sticks."""
    return -(-group.bytes // BYTES_IN_STICK) * BYTES_IN_STICK


def _peak(slots: dict[BufferGroup, Slot]) -> int:
    return max((slot.high for slot in slots.values()), default=0)


def _first_fit(order: list[BufferGroup]) -> dict[BufferGroup, Slot]:
    """Allocate each group at the lowest address that is free during its live range."""
    slots: dict[BufferGroup, Slot] = {}
    occupied = _SlotTree(max((group.end for group in order), default=0) + 1)
    for group in order:
        size = _size(group)
        address = 0
        for slot in sorted(occupied.overlapping(group.start, group.end), key=attrgetter("low")):
            if address + size <= slot.low:
                break
            address = max(address, slot.high)
        slots[group] = Slot(address, address + size, group.start, group.end)
        if size:
            occupied.add(slots[group])
    return slots


class _SlotTree:
    """A segment tree of slots over the positions of nodes.

    Each slot is stored in the few tree nodes that together cover its live range, so the tree nodes
    on the path from a position to the root store the slots that are occupied at that position.
    """

    def __init__(self, num_positions: int) -> None:
        self.num_leaves = num_positions
        self.covering: list[list[Slot]] = [[] for _ in range(2 * num_positions)]
        self.starts: list[int] = []
        self.by_start: list[Slot] = []

    def add(self, slot: Slot) -> None:
        index = bisect_right(self.starts, slot.start)
        self.starts.insert(index, slot.start)
        self.by_start.insert(index, slot)
        low, high = slot.start + self.num_leaves, slot.end + 1 + self.num_leaves
        while low < high:
            if low & 1:
                self.covering[low].append(slot)
                low += 1
            if high & 1:
                high -= 1
                self.covering[high].append(slot)
            low, high = low >> 1, high >> 1

    def overlapping(self, start: int, end: int) -> Iterator[Slot]:
        """Yield the slots occupied at `start`, then those that begin after it up to `end`."""
        node = start + self.num_leaves
        while node:
            yield from self.covering[node]
            node >>= 1
        first, last = bisect_right(self.starts, start), bisect_right(self.starts, end)
        yield from self.by_start[first:last]


def _groups_at_peak(groups: Iterable[BufferGroup]) -> list[BufferGroup]:
    """Return the groups that are live where the most bytes are live, largest first."""
    by_start = sorted(groups, key=attrgetter("start"))
    # Sorted by end; the index breaks ties, since groups cannot be compared.
    live: list[tuple[int, int, BufferGroup]] = []
    live_bytes = peak = peak_position = 0
    for index, group in enumerate(by_start):
        num_dead = bisect_left(live, (group.start,))
        live_bytes += _size(group) - sum(_size(dead) for _, _, dead in live[:num_dead])
        del live[:num_dead]
        insort(live, (group.end, index, group))
        if live_bytes > peak:
            peak, peak_position = live_bytes, group.start
    at_peak = [group for group in by_start if group.start <= peak_position <= group.end]
    return sorted(at_peak, key=lambda group: -group.bytes)

"""Gives every buffer its address in the scratchpad.

A buffer lives from its first access to its last; one that is accessed inside and outside a loop, or
carried by it, lives as long as the loop runs. Buffers that are alive together do not overlap. Where
an elementwise op or a product may write over an operand that nobody needs any more, it does.

Where there is room, right operands of products share their address with nothing: a tile that only
products read need not be copied to the scratchpad at all where the card is emulated.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from torch_spyre.backend.lowering.lives import Group, groups_of
from torch_spyre.backend.lowering.nodes import Matmul, Node, regions_of
from torch_spyre.backend.lowering.values import Buffer
from torch_spyre.constants import BYTES_IN_STICK


@dataclass(frozen=True)
class Placement:
    """`crowd` are the buffers alive when the most is needed, largest first."""

    addresses: dict[Buffer, int]
    peak: int
    crowd: tuple[Buffer, ...]


@dataclass(frozen=True)
class Room:
    """A group at an address."""

    low: int
    high: int
    start: int
    end: int


def place(nodes: list[Node], capacity: int) -> Placement:
    groups = groups_of(nodes)
    crowd = _crowd(groups)
    rooms = _best_fit(_with_lasting_right_operands(groups, nodes))
    if _peak(rooms) > capacity:
        rooms = _best_fit(groups)
    addresses = {buffer: room.low for group, room in rooms.items() for buffer in group.buffers}
    return Placement(addresses, _peak(rooms), tuple(group.buffers[0] for group in crowd))


def _with_lasting_right_operands(groups: list[Group], nodes: list[Node]) -> list[Group]:
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


def _best_fit(groups: list[Group]) -> dict[Group, Room]:
    least = sum(map(_size, _crowd(groups)))
    best: dict[Group, Room] | None = None
    for order in (
        sorted(groups, key=lambda group: (group.start, -group.bytes)),
        sorted(groups, key=lambda group: (-group.bytes, group.start)),
        sorted(groups, key=lambda group: (group.start - group.end, -group.bytes)),
    ):
        rooms = _first_fit(order)
        if best is None or _peak(rooms) < _peak(best):
            best = rooms
        if _peak(best) == least:
            break
    assert best is not None
    return best


def _size(group: Group) -> int:
    return -(-group.bytes // BYTES_IN_STICK) * BYTES_IN_STICK


def _peak(rooms: dict[Group, Room]) -> int:
    return max((room.high for room in rooms.values()), default=0)


def _first_fit(order: list[Group]) -> dict[Group, Room]:
    """Each group at the lowest address that is free for all of its life."""
    rooms: dict[Group, Room] = {}
    taken = _Timeline(max((group.end for group in order), default=0) + 1)
    for group in order:
        size = _size(group)
        address = 0
        for room in sorted(taken.overlapping(group.start, group.end), key=attrgetter("low")):
            if address + size <= room.low:
                break
            address = max(address, room.high)
        rooms[group] = Room(address, address + size, group.start, group.end)
        if size:
            taken.add(rooms[group])
    return rooms


class _Timeline:
    """Rooms by when they are taken.

    A binary tree over the positions holds each room in the few nodes that together cover its life;
    those on the way from a position to the root are then the rooms taken at that position.
    """

    def __init__(self, positions: int) -> None:
        self.leaves = positions
        self.covering: list[list[Room]] = [[] for _ in range(2 * positions)]
        self.starts: list[int] = []
        self.by_start: list[Room] = []

    def add(self, room: Room) -> None:
        at = bisect_right(self.starts, room.start)
        self.starts.insert(at, room.start)
        self.by_start.insert(at, room)
        low, high = room.start + self.leaves, room.end + 1 + self.leaves
        while low < high:
            if low & 1:
                self.covering[low].append(room)
                low += 1
            if high & 1:
                high -= 1
                self.covering[high].append(room)
            low, high = low >> 1, high >> 1

    def overlapping(self, start: int, end: int) -> Iterator[Room]:
        """Those taken at the start, and those that begin later and before the end."""
        node = start + self.leaves
        while node:
            yield from self.covering[node]
            node >>= 1
        first, last = bisect_right(self.starts, start), bisect_right(self.starts, end)
        yield from self.by_start[first:last]


def _crowd(groups: Iterable[Group]) -> list[Group]:
    """The groups alive when the most room is needed, largest first."""
    waiting = sorted(groups, key=attrgetter("start"))
    alive: list[tuple[int, int, Group]] = []  # by end; the number keeps groups from being compared
    needed = most = when = 0
    for number, group in enumerate(waiting):
        ended = bisect_left(alive, (group.start,))
        needed += _size(group) - sum(_size(gone) for _, _, gone in alive[:ended])
        del alive[:ended]
        insort(alive, (group.end, number, group))
        if needed > most:
            most, when = needed, group.start
    crowd = [group for group in waiting if group.start <= when <= group.end]
    return sorted(crowd, key=lambda group: -group.bytes)

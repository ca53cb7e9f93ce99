"""Gives every buffer its address in the scratchpad.

A buffer lives from its first access to its last; one that is accessed inside and outside a loop, or
carried by it, lives as long as the loop runs. Buffers that are alive together do not overlap. Where
an elementwise op or a product may write over an operand that nobody needs any more, it does.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from torch_spyre.backend.lowering.coalescing import in_place
from torch_spyre.backend.lowering.nodes import Elementwise, For, If, Node, Product
from torch_spyre.backend.lowering.values import Buffer, TensorView
from torch_spyre.constants import BYTES_IN_STICK


@dataclass
class _Life:
    """When a buffer is needed: positions of nodes, both ends included."""

    buffer: Buffer
    start: int
    end: int


@dataclass
class _Group:
    """Buffers that take turns at one address."""

    bytes: int
    start: int
    end: int
    buffers: list[Buffer] = field(default_factory=list)


@dataclass(frozen=True)
class Placement:
    """`crowd` are the buffers alive when the most is needed, largest first."""

    addresses: dict[Buffer, int]
    peak: int
    crowd: tuple[Buffer, ...]


def place(nodes: list[Node]) -> Placement:
    walk = _Walk()
    walk.region(nodes)
    lives = walk.lives()
    groups = _grouped(walk.nodes, lives)
    best: tuple[int, dict[int, int]] | None = None
    for order in (
        sorted(groups, key=lambda group: (group.start, -group.bytes)),
        sorted(groups, key=lambda group: (-group.bytes, group.start)),
        sorted(groups, key=lambda group: (group.start - group.end, -group.bytes)),
    ):
        peak, addresses = _first_fit(order)
        if best is None or peak < best[0]:
            best = peak, addresses
    assert best is not None
    placed = {buffer: best[1][id(group)] for group in groups for buffer in group.buffers}
    return Placement(placed, best[0], _crowd(groups))


class _Walk:
    """Positions of all nodes, and where each buffer is accessed."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.accesses: dict[Buffer, list[int]] = defaultdict(list)
        self.loops: list[tuple[int, int, list[Buffer]]] = []

    def region(self, nodes: list[Node]) -> None:
        for node in nodes:
            position = len(self.nodes)
            self.nodes.append(node)
            for buffer in (*node.reads(), *node.writes()):
                self.accesses[buffer].append(position)
            match node:
                case For():
                    self.region(node.body)
                    # The end of the loop is a position of its own.
                    self.nodes.append(Node(node.place))
                    self.loops.append((position, len(self.nodes) - 1, node.carried))
                case If():
                    self.region(node.then)
                    self.region(node.otherwise)
                    for buffer in node.results:
                        if buffer in self.accesses:
                            self.accesses[buffer].append(position)

    def lives(self) -> dict[Buffer, _Life]:
        lives = {
            buffer: _Life(buffer, min(found), max(found)) for buffer, found in self.accesses.items()
        }
        # Inner loops come first: a life grown to one of them may then grow to the next.
        for start, end, carried in self.loops:
            for life in lives.values():
                inside = life.start <= end and life.end >= start
                contained = start < life.start and life.end <= end
                if inside and not contained:
                    life.start, life.end = min(life.start, start), max(life.end, end)
            for buffer in carried:
                if buffer in lives:
                    lives[buffer].start = min(lives[buffer].start, start)
                    lives[buffer].end = max(lives[buffer].end, end)
        return lives


def _grouped(nodes: list[Node], lives: dict[Buffer, _Life]) -> list[_Group]:
    """Joins a buffer to the operand it may overwrite when that dies where it is born."""
    group_of: dict[Buffer, _Group] = {
        buffer: _Group(buffer.bytes, life.start, life.end, [buffer])
        for buffer, life in lives.items()
    }
    for position, node in enumerate(nodes):
        for old, new in _overwrites(node):
            before, after = group_of[old], group_of[new]
            dies = before.end == position and lives[old].end == position
            born = after.start == position and lives[new].start == position
            if before is after or not dies or not born or old.bytes != new.bytes:
                continue
            before.end = after.end
            before.buffers += after.buffers
            for buffer in after.buffers:
                group_of[buffer] = before
    return list({id(group): group for group in group_of.values()}.values())


def _overwrites(node: Node) -> list[tuple[Buffer, Buffer]]:
    match node:
        case Elementwise():
            inputs = [found for found in node.inputs if isinstance(found, TensorView)]
            return [
                (found.buffer, output.tensor.buffer)
                for output in node.outputs
                for found in inputs
                if found.buffer is not output.tensor.buffer
                and in_place(node, found.buffer, output.tensor.buffer)
            ]
        case Product() if node.initial is not None and node.initial.strides == node.output.strides:
            old = node.initial.buffer
            if old not in (node.a.buffer, node.b.buffer, node.output.buffer):
                return [(old, node.output.buffer)]
    return []


def _first_fit(order: list[_Group]) -> tuple[int, dict[int, int]]:
    placed: list[tuple[int, int, int, int]] = []
    addresses: dict[int, int] = {}
    peak = 0
    for group in order:
        size = -(-group.bytes // BYTES_IN_STICK) * BYTES_IN_STICK
        address = 0
        for low, high, start, end in placed:
            if start <= group.end and group.start <= end:
                if address + size <= low:
                    break
                address = max(address, high)
        addresses[id(group)] = address
        placed.append((address, address + size, group.start, group.end))
        placed.sort()
        peak = max(peak, address + size)
    return peak, addresses


def _crowd(groups: list[_Group]) -> tuple[Buffer, ...]:
    most, when = -1, 0
    for group in groups:
        alive = sum(other.bytes for other in groups if other.start <= group.start <= other.end)
        if alive > most:
            most, when = alive, group.start
    crowd = [group for group in groups if group.start <= when <= group.end]
    crowd.sort(key=lambda group: -group.bytes)
    return tuple(group.buffers[0] for group in crowd)

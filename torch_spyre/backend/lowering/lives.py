"""How long buffers live, and which of them take turns at one address."""

from collections import defaultdict
from dataclasses import dataclass, field

from torch_spyre.backend.lowering.coalescing import in_place, may_accumulate
from torch_spyre.backend.lowering.nodes import (
    Elementwise,
    For,
    Matmul,
    Node,
    regions_of,
    yielded_by,
)
from torch_spyre.backend.lowering.values import Buffer, TensorView


@dataclass(eq=False)
class Group:
    """Buffers that take turns at one address, from the node `start` to the node `end`, both in."""

    bytes: int
    start: int
    end: int
    buffers: list[Buffer] = field(default_factory=list)


def groups_of(nodes: list[Node]) -> list[Group]:
    walk = _Walk()
    walk.region(nodes)
    return _grouped(walk.nodes, walk.lives())


@dataclass
class _Life:
    start: int
    end: int


class _Walk:
    """Positions of all nodes, and where each buffer is accessed."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        # The loops around each position, and where each loop, named by its start, ends.
        self.around: list[tuple[int, ...]] = []
        self.ends: dict[int, int] = {}
        self.accesses: dict[Buffer, list[int]] = defaultdict(list)

    def region(self, nodes: list[Node], loops: tuple[int, ...] = ()) -> None:
        for node in nodes:
            position = self._next(node, loops)
            for buffer in (*node.reads(), *node.writes()):
                self.accesses[buffer].append(position)
            for region in regions_of(node):
                self.region(region, (*loops, position) if isinstance(node, For) else loops)
            yielded = [buffer for buffer in yielded_by(node) if buffer in self.accesses]
            for buffer in yielded:
                self.accesses[buffer].append(position)
            if isinstance(node, For):
                # The end of a loop is a position of its own, outside the loop as its start is.
                self.ends[position] = self._next(Node(node.location), loops)
                for buffer in yielded:
                    self.accesses[buffer].append(self.ends[position])

    def _next(self, node: Node, loops: tuple[int, ...]) -> int:
        self.nodes.append(node)
        self.around.append(loops)
        return len(self.nodes) - 1

    def lives(self) -> dict[Buffer, _Life]:
        return {buffer: self._life(found) for buffer, found in self.accesses.items()}

    def _life(self, accesses: list[int]) -> _Life:
        """From the first access to the last; all of a loop that it is in and out of."""
        start, end = min(accesses), max(accesses)
        before, after = self.around[start], self.around[end]
        common = 0
        while common < min(len(before), len(after)) and before[common] == after[common]:
            common += 1
        if len(before) > common:
            start = before[common]
        if len(after) > common:
            end = self.ends[after[common]]
        return _Life(start, end)


def _grouped(nodes: list[Node], lives: dict[Buffer, _Life]) -> list[Group]:
    """Joins a buffer to the operand it may overwrite when that dies where it is born."""
    group_of: dict[Buffer, Group] = {
        buffer: Group(buffer.bytes, life.start, life.end, [buffer])
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
    return list(dict.fromkeys(group_of.values()))


def _overwrites(node: Node) -> list[tuple[Buffer, Buffer]]:
    match node:
        case Elementwise():
            inputs = {found.buffer for found in node.inputs if isinstance(found, TensorView)}
            return [
                (old, output.tensor.buffer)
                for output in node.outputs
                for old in sorted(inputs, key=lambda buffer: buffer.id)
                if old is not output.tensor.buffer and in_place(node, old, output.tensor.buffer)
            ]
        case Matmul() if may_accumulate(node):
            assert node.addend is not None
            old, new = node.addend.buffer, node.output.buffer
            return [] if old is new else [(old, new)]
    return []

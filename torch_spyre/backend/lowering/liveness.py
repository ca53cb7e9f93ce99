"""Computes live ranges of buffers, and groups buffers that can use one address in turn."""

from collections import defaultdict
from dataclasses import dataclass, field

from torch_spyre.backend.lowering.coalescing import can_accumulate_in_place, can_run_in_place
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
class BufferGroup:
    """Buffers that use one address in turn, live from node `start` to node `end`, inclusive."""

    bytes: int
    start: int
    end: int
    buffers: list[Buffer] = field(default_factory=list)


def buffer_groups(nodes: list[Node]) -> list[BufferGroup]:
    """Return the buffers of a kernel in groups that each need one address."""
    accesses = _BufferAccesses()
    accesses.add_region(nodes)
    return _grouped(accesses.nodes, accesses.live_ranges())


@dataclass
class LiveRange:
    """The positions of the first and the last node at which a buffer is live."""

    start: int
    end: int


class _BufferAccesses:
    """Positions of all nodes in program order, and the positions that access each buffer."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        # The loops around each position; a loop is named by the position of its start.
        self.enclosing_loops: list[tuple[int, ...]] = []
        self.loop_ends: dict[int, int] = {}
        self.accesses: dict[Buffer, list[int]] = defaultdict(list)

    def add_region(self, nodes: list[Node], loops: tuple[int, ...] = ()) -> None:
        for node in nodes:
            position = self._add_node(node, loops)
            for buffer in (*node.reads(), *node.writes()):
                self.accesses[buffer].append(position)
            for region in regions_of(node):
                self.add_region(region, (*loops, position) if isinstance(node, For) else loops)
            yielded = [buffer for buffer in yielded_by(node) if buffer in self.accesses]
            for buffer in yielded:
                self.accesses[buffer].append(position)
            if isinstance(node, For):
                # The end of a loop has its own position; like the start, it is outside the loop.
                self.loop_ends[position] = self._add_node(Node(node.location), loops)
                for buffer in yielded:
                    self.accesses[buffer].append(self.loop_ends[position])

    def _add_node(self, node: Node, loops: tuple[int, ...]) -> int:
        self.nodes.append(node)
        self.enclosing_loops.append(loops)
        return len(self.nodes) - 1

    def live_ranges(self) -> dict[Buffer, LiveRange]:
        return {buffer: self._live_range(positions) for buffer, positions in self.accesses.items()}

    def _live_range(self, accesses: list[int]) -> LiveRange:
        """Return the range of the accesses, extended over loops that contain only some of them."""
        start, end = min(accesses), max(accesses)
        start_loops, end_loops = self.enclosing_loops[start], self.enclosing_loops[end]
        common = 0
        while (
            common < min(len(start_loops), len(end_loops))
            and start_loops[common] == end_loops[common]
        ):
            common += 1
        if len(start_loops) > common:
            start = start_loops[common]
        if len(end_loops) > common:
            end = self.loop_ends[end_loops[common]]
        return LiveRange(start, end)


def _grouped(nodes: list[Node], live_ranges: dict[Buffer, LiveRange]) -> list[BufferGroup]:
    """Group a result with an operand that it can overwrite and that is dead after the node."""
    group_of: dict[Buffer, BufferGroup] = {
        buffer: BufferGroup(buffer.bytes, live_range.start, live_range.end, [buffer])
        for buffer, live_range in live_ranges.items()
    }
    for position, node in enumerate(nodes):
        # A result that nothing reads is dead at once, but no other result may be computed with it.
        overwritten: set[BufferGroup] = set()
        for operand, result in _overwrites(node):
            operand_group, result_group = group_of[operand], group_of[result]
            operand_dies = operand_group.end == position == live_ranges[operand].end
            result_starts = result_group.start == position == live_ranges[result].start
            if operand_group is result_group or operand.bytes != result.bytes:
                continue
            if not overwritten.isdisjoint((operand_group, result_group)):
                continue
            if not operand_dies or not result_starts:
                continue
            operand_group.end = result_group.end
            operand_group.buffers += result_group.buffers
            overwritten.add(operand_group)
            for buffer in result_group.buffers:
                group_of[buffer] = operand_group
    return list(dict.fromkeys(group_of.values()))


def _overwrites(node: Node) -> list[tuple[Buffer, Buffer]]:
    """Return pairs of an operand and a result of a node that can be computed in its buffer."""
    match node:
        case Elementwise():
            operands = {entry.buffer for entry in node.inputs if isinstance(entry, TensorView)}
            return [
                (operand, output.tensor.buffer)
                for output in node.outputs
                for operand in sorted(operands, key=lambda buffer: buffer.id)
                if operand is not output.tensor.buffer
                and can_run_in_place(node, operand, output.tensor.buffer)
            ]
        case Matmul() if can_accumulate_in_place(node):
            assert node.addend is not None
            operand, result = node.addend.buffer, node.output.buffer
            return [] if operand is result else [(operand, result)]
    return []

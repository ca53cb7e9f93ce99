"""Removes copies by letting source and destination be one buffer.

A loop's accumulator is the case that matters: `scf.yield` copies the new value to where the old one
is, and when the old one is no longer needed the new one can be computed right there.

Nodes are numbered in the order of the text, so that questions about a stretch of the kernel are
questions about a sorted list of numbers; kernels have thousands of nodes.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field, fields, is_dataclass, replace

from torch_spyre.backend.lowering.nodes import (
    CopyTensor,
    Elementwise,
    For,
    Matmul,
    Node,
    Output,
    regions_of,
    yielded_by,
)
from torch_spyre.backend.lowering.values import Buffer, TensorView


def coalesce(nodes: list[Node]) -> list[Node]:
    """The kernel without the copies that are not needed."""
    coalescing = _Coalescing()
    coalescing.number(nodes)
    coalescing.region(nodes, None)
    return coalescing.renamed(nodes)


@dataclass
class _Accesses:
    """Numbers of the nodes that touch or write a buffer, ascending."""

    touched: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def any_in(self, start: int, end: int) -> bool:
        position = bisect_left(self.touched, start)
        return position < len(self.touched) and self.touched[position] < end

    def join(self, other: "_Accesses") -> None:
        for mine, its in ((self.touched, other.touched), (self.written, other.written)):
            for number in its:
                insort(mine, number)


class _Coalescing:
    def __init__(self) -> None:
        # The numbers of a node and of what is inside it are [start, end).
        self.start: dict[Node, int] = {}
        self.end: dict[Node, int] = {}
        self.accesses: dict[Buffer, _Accesses] = defaultdict(_Accesses)
        # The buffer that took another's place.
        self.merged: dict[Buffer, Buffer] = {}
        self.removed: set[Node] = set()

    def number(self, nodes: list[Node]) -> None:
        for node in nodes:
            number = self.start[node] = len(self.start)
            yielded = yielded_by(node)
            written = {*node.writes(), *yielded}
            for buffer in {*node.reads(), *written}:
                self.accesses[buffer].touched.append(number)
            for buffer in written:
                self.accesses[buffer].written.append(number)
            for region in regions_of(node):
                self.number(region)
            self.end[node] = len(self.start)

    def region(self, nodes: list[Node], loop: For | None) -> None:
        for node in nodes:
            for region in regions_of(node):
                self.region(region, node if isinstance(node, For) else None)
        starts = [self.start[node] for node in nodes]
        for node in nodes:
            if not isinstance(node, CopyTensor):
                continue
            self.rename(node)
            if _is_whole_copy(node) and self._can_be_one(nodes, starts, node, loop):
                self.removed.add(node)
                self._merge(node.source.buffer, node.destination.buffer)

    def _can_be_one(
        self, nodes: list[Node], starts: list[int], copy: CopyTensor, loop: For | None
    ) -> bool:
        begin, number = starts[0], self.start[copy]
        source = self.accesses[copy.source.buffer]
        destination = self.accesses[copy.destination.buffer]
        # The source must live in this region alone, and end here.
        if source.touched[0] < begin or source.touched[-1] > number:
            return False
        if not source.written or source.written[0] >= number:
            return False
        first = nodes[bisect_left(starts, source.written[0] + 1) - 1]
        carried = loop is not None and copy.destination.buffer in map(self.root, loop.carried)
        if not carried:
            # Nothing may touch the destination before.
            return not destination.any_in(begin, number)
        # Its old content must have been read when the first new element is written.
        if destination.any_in(self.end[first], number):
            return False
        if not destination.any_in(self.start[first], self.end[first]):
            return True
        self.rename(first)
        return _may_overwrite(first, copy.destination.buffer, copy.source.buffer)

    def _merge(self, old: Buffer, new: Buffer) -> None:
        mine, its = self.accesses[new], self.accesses.pop(old)
        if len(mine.touched) < len(its.touched):
            mine, its = its, mine
        mine.join(its)
        self.accesses[new] = mine
        self.merged[old] = new

    def root(self, buffer: Buffer) -> Buffer:
        found = buffer
        while found in self.merged:
            found = self.merged[found]
        while buffer is not found:
            self.merged[buffer], buffer = found, self.merged[buffer]
        return found

    def renamed(self, nodes: list[Node]) -> list[Node]:
        kept = []
        for node in nodes:
            if node in self.removed:
                continue
            self.rename(node)
            for region in regions_of(node):
                region[:] = self.renamed(region)
            if not _changes_nothing(node):
                kept.append(node)
        return kept

    def rename(self, node: Node) -> None:
        """Puts the buffers that took the place of others in a node, not in its regions."""
        for entry in fields(node):
            if entry.name not in ("body", "then", "otherwise"):
                value = getattr(node, entry.name)
                renamed = self._in_place_of(value)
                if renamed is not value:
                    setattr(node, entry.name, renamed)

    def _in_place_of(self, value: object) -> object:
        match value:
            case Buffer():
                return self.root(value)
            case TensorView():
                root = self.root(value.buffer)
                return value if root is value.buffer else replace(value, buffer=root)
            case list():
                return [self._in_place_of(item) for item in value]
            case tuple() if value and is_dataclass(value[0]):
                return tuple(self._in_place_of(item) for item in value)
            case Elementwise():
                self.rename(value)
            case Output():
                tensor = self._in_place_of(value.tensor)
                assert isinstance(tensor, TensorView)
                return value if tensor is value.tensor else Output(value.value, tensor)
        return value


def _is_whole_copy(copy: CopyTensor) -> bool:
    source, destination = copy.source, copy.destination
    return (
        source.buffer is not destination.buffer
        and source.is_whole
        and destination.is_whole
        and source.type is destination.type
        and source.buffer.bytes == destination.buffer.bytes
    )


def _changes_nothing(node: Node) -> bool:
    """Is this a copy of elements to where they are?"""
    return (
        isinstance(node, CopyTensor)
        and node.source.buffer is node.destination.buffer
        and _same_walk(node.source, node.destination)
    )


def _may_overwrite(node: Node, old: Buffer, new: Buffer) -> bool:
    """May this node write `new` over `old`, which it reads?"""
    match node:
        case CopyTensor():
            return node.source.buffer is old and _same_walk(node.source, node.destination)
        case Matmul():
            return may_accumulate(node) and node.addend is not None and node.addend.buffer is old
        case Elementwise():
            return in_place(node, old, new)
    return False


def may_accumulate(node: Matmul) -> bool:
    """May the product be written over its initial value?"""
    return (
        node.addend is not None
        and _same_walk(node.addend, node.output)
        and node.addend.buffer not in (node.a.buffer, node.b.buffer)
    )


def in_place(node: Elementwise, old: Buffer, new: Buffer) -> bool:
    """Does every read of `old` come from the very place that the same element of `new` goes to?"""
    outputs = [output.tensor for output in node.outputs if output.tensor.buffer is new]
    reads = [
        found for found in node.inputs if isinstance(found, TensorView) and found.buffer is old
    ]
    return (
        len(outputs) == 1
        and all(_same_walk(found, outputs[0]) for found in reads)
        and all(found.buffer is not old for found in node.lookups)
    )


def _same_walk(left: TensorView, right: TensorView) -> bool:
    return (
        left.strides == right.strides
        and left.offset == right.offset
        and left.offset_register == right.offset_register
        and left.type.bytes == right.type.bytes
    )

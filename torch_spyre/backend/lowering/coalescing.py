"""Removes copies by merging the buffers of source and destination.

The important case is a loop's accumulator: `scf.yield` copies the new value to the buffer of the
old one, and if the old value is dead by then, the new value can be computed in place.

Nodes are numbered in program order, so that the accesses to a buffer in a range of nodes are a
range of a sorted list: kernels have thousands of nodes.
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
    """Return the kernel without unnecessary copies."""
    coalescing = _Coalescing()
    coalescing.number_nodes(nodes)
    coalescing.coalesce_region(nodes, None)
    return coalescing.rewritten(nodes)


@dataclass
class _Accesses:
    """Numbers of the nodes that access or write a buffer, ascending."""

    accessed: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def has_access_in(self, start: int, end: int) -> bool:
        position = bisect_left(self.accessed, start)
        return position < len(self.accessed) and self.accessed[position] < end

    def add_all(self, added: "_Accesses") -> None:
        for numbers, added_numbers in (
            (self.accessed, added.accessed),
            (self.written, added.written),
        ):
            for number in added_numbers:
                insort(numbers, number)


class _Coalescing:
    def __init__(self) -> None:
        # The numbers of a node and of the nodes in its regions are [start, end).
        self.start: dict[Node, int] = {}
        self.end: dict[Node, int] = {}
        self.accesses: dict[Buffer, _Accesses] = defaultdict(_Accesses)
        # The buffer that replaces another.
        self.merged: dict[Buffer, Buffer] = {}
        self.removed: set[Node] = set()

    def number_nodes(self, nodes: list[Node]) -> None:
        for node in nodes:
            number = self.start[node] = len(self.start)
            yielded = yielded_by(node)
            written = {*node.writes(), *yielded}
            for buffer in {*node.reads(), *written}:
                self.accesses[buffer].accessed.append(number)
            for buffer in written:
                self.accesses[buffer].written.append(number)
            for region in regions_of(node):
                self.number_nodes(region)
            self.end[node] = len(self.start)

    def coalesce_region(self, nodes: list[Node], loop: For | None) -> None:
        """Merge the buffers of copies in a region, the body of `loop` if that is not None."""
        for node in nodes:
            for region in regions_of(node):
                self.coalesce_region(region, node if isinstance(node, For) else None)
        starts = [self.start[node] for node in nodes]
        for node in nodes:
            if not isinstance(node, CopyTensor):
                continue
            self.replace_buffers(node)
            if _is_whole_copy(node) and self._can_merge(nodes, starts, node, loop):
                self.removed.add(node)
                self._merge(node.source.buffer, node.destination.buffer)

    def _can_merge(
        self, nodes: list[Node], starts: list[int], copy: CopyTensor, loop: For | None
    ) -> bool:
        """Return whether the source of a copy can be computed in the destination's buffer."""
        begin, number = starts[0], self.start[copy]
        source = self.accesses[copy.source.buffer]
        destination = self.accesses[copy.destination.buffer]
        # The source must be live only in this region, and dead after the copy.
        if source.accessed[0] < begin or source.accessed[-1] > number:
            return False
        if not source.written or source.written[0] >= number:
            return False
        first = nodes[bisect_left(starts, source.written[0] + 1) - 1]
        is_carried = loop is not None and copy.destination.buffer in map(self.root, loop.carried)
        if not is_carried:
            # The destination must not be accessed before the copy.
            return not destination.has_access_in(begin, number)
        # The old value must have been read before the first new element is written.
        if destination.has_access_in(self.end[first], number):
            return False
        if not destination.has_access_in(self.start[first], self.end[first]):
            return True
        self.replace_buffers(first)
        return _can_overwrite(first, copy.destination.buffer, copy.source.buffer)

    def _merge(self, old: Buffer, new: Buffer) -> None:
        larger, smaller = self.accesses[new], self.accesses.pop(old)
        if len(larger.accessed) < len(smaller.accessed):
            larger, smaller = smaller, larger
        larger.add_all(smaller)
        self.accesses[new] = larger
        self.merged[old] = new

    def root(self, buffer: Buffer) -> Buffer:
        """Return the buffer that replaces this one, with path compression."""
        root = buffer
        while root in self.merged:
            root = self.merged[root]
        while buffer is not root:
            self.merged[buffer], buffer = root, self.merged[buffer]
        return root

    def rewritten(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes of a region without removed copies, with merged buffers."""
        retained = []
        for node in nodes:
            if node in self.removed:
                continue
            self.replace_buffers(node)
            for region in regions_of(node):
                region[:] = self.rewritten(region)
            if not _is_identity_copy(node):
                retained.append(node)
        return retained

    def replace_buffers(self, node: Node) -> None:
        """Replace merged buffers in the fields of a node, not in its regions."""
        for entry in fields(node):
            if entry.name not in ("body", "then", "otherwise"):
                value = getattr(node, entry.name)
                replaced = self._with_merged_buffers(value)
                if replaced is not value:
                    setattr(node, entry.name, replaced)

    def _with_merged_buffers(self, value: object) -> object:
        match value:
            case Buffer():
                return self.root(value)
            case TensorView():
                root = self.root(value.buffer)
                return value if root is value.buffer else replace(value, buffer=root)
            case list():
                return [self._with_merged_buffers(item) for item in value]
            case tuple() if value and is_dataclass(value[0]):
                return tuple(self._with_merged_buffers(item) for item in value)
            case Elementwise():
                self.replace_buffers(value)
            case Output():
                tensor = self._with_merged_buffers(value.tensor)
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


def _is_identity_copy(node: Node) -> bool:
    """Return whether a node copies elements onto themselves."""
    return (
        isinstance(node, CopyTensor)
        and node.source.buffer is node.destination.buffer
        and _have_same_addresses(node.source, node.destination)
    )


def _can_overwrite(node: Node, old: Buffer, new: Buffer) -> bool:
    """Return whether a node can write `new` to the memory of `old`, which it reads."""
    match node:
        case CopyTensor():
            return node.source.buffer is old and _have_same_addresses(node.source, node.destination)
        case Matmul():
            return (
                can_accumulate_in_place(node)
                and node.addend is not None
                and node.addend.buffer is old
            )
        case Elementwise():
            return can_run_in_place(node, old, new)
    return False


def can_accumulate_in_place(node: Matmul) -> bool:
    """Return whether a matmul can write its result over its addend."""
    return (
        node.addend is not None
        and _have_same_addresses(node.addend, node.output)
        and node.addend.buffer not in (node.a.buffer, node.b.buffer)
    )


def can_run_in_place(node: Elementwise, old: Buffer, new: Buffer) -> bool:
    """Return whether each element of `old` is read only to compute the element of `new` there."""
    outputs = [output.tensor for output in node.outputs if output.tensor.buffer is new]
    reads = [
        entry for entry in node.inputs if isinstance(entry, TensorView) and entry.buffer is old
    ]
    return (
        len(outputs) == 1
        and all(_have_same_addresses(read, outputs[0]) for read in reads)
        and all(lookup.buffer is not old for lookup in node.lookups)
    )


def _have_same_addresses(left: TensorView, right: TensorView) -> bool:
    """Return whether two views, in one buffer, have each element at the same address."""
    return (
        left.strides == right.strides
        and left.offset == right.offset
        and left.offset_register == right.offset_register
        and left.type.bytes == right.type.bytes
    )

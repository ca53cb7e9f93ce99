"""The form of a kernel between KTIR and instructions: values have buffers without an address.

A node holds the buffers that it reads and writes. Regions of loops and branches are lists of nodes.
The attributes of a node have the names of the fields of the `instruction` that it becomes, with
tensors in place of operands and extents in place of registers (see `emission`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from torch_spyre.backend.lowering.values import Buffer, Extent, TensorView
from torch_spyre.backend.program import instructions
from torch_spyre.backend.program.instructions import (
    ChainStep,
    DeliveryKind,
    ElementType,
    Instruction,
    Subscript,
    View,
)


@dataclass(eq=False)
class Node:
    """`location` is the index of the source location of the op that the node comes from."""

    instruction: ClassVar[type[Instruction]]
    location: int

    def reads(self) -> Iterator[Buffer]:
        """Yield the buffers that the node reads, not those of its regions."""
        yield from ()

    def writes(self) -> Iterator[Buffer]:
        """Yield the buffers that the node writes, not those of its regions."""
        yield from ()


@dataclass(eq=False)
class Plain(Node):
    """A finished instruction, which uses registers only."""

    finished: Instruction


@dataclass(eq=False)
class ExtractElement(Node):
    """A load of one element to a register."""

    instruction = instructions.Extract
    destination: int
    source: TensorView
    indices: tuple[int, ...]

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Return the extents that the indices are checked against."""
        return self.source.extents

    def reads(self) -> Iterator[Buffer]:
        yield self.source.buffer


@dataclass(eq=False)
class TileMove(Node):
    """A tile that is stored to memory (`store`) or loaded from it."""

    store: bool
    tile: TensorView

    def reads(self) -> Iterator[Buffer]:
        if self.store:
            yield self.tile.buffer

    def writes(self) -> Iterator[Buffer]:
        if not self.store:
            yield self.tile.buffer


@dataclass(eq=False)
class TileTransfer(TileMove):
    """A transfer of a box; `extents` and the tile's strides are in the order of the view's dims."""

    instruction = instructions.Transfer
    extents: tuple[Extent, ...]
    anchor: tuple[int, ...]
    views: tuple[View, ...]
    points: tuple[int, ...] = ()


@dataclass(eq=False)
class IndirectTile(TileMove):
    """A transfer with computed coordinates."""

    instruction = instructions.IndirectTransfer
    variables: tuple[Extent, ...]
    view: View
    subscripts: tuple[Subscript, ...]
    points: tuple[int, ...] = ()


@dataclass(frozen=True)
class ScalarInput:
    """A register's scalar as an input of a chain."""

    register: int
    type: ElementType


@dataclass(frozen=True)
class IndexInput:
    """The coordinate in a dimension as an input of a chain."""

    dimension: int


# A tensor input's extents are not those of the iteration space; its strides are.
ChainInput = TensorView | ScalarInput | IndexInput


@dataclass(frozen=True)
class Output:
    """The tensor that a value is stored to; its strides are those of the iteration space."""

    value: int
    tensor: TensorView


@dataclass(eq=False)
class Elementwise(Node):
    """Elementwise work; values are numbered: inputs first, then the results of the steps."""

    instruction = instructions.Chain
    extents: tuple[Extent, ...]
    inputs: list[ChainInput]
    steps: list[ChainStep]
    lookups: list[TensorView]
    outputs: list[Output]

    def reads(self) -> Iterator[Buffer]:
        yield from (entry.buffer for entry in self.inputs if isinstance(entry, TensorView))
        yield from (lookup.buffer for lookup in self.lookups)

    def writes(self) -> Iterator[Buffer]:
        yield from (output.tensor.buffer for output in self.outputs)


@dataclass(eq=False)
class Reduction(Node):
    """A reduction of the `values` of `chain`, which has no outputs of its own."""

    instruction = instructions.Reduce
    chain: Elementwise
    reduced: tuple[int, ...]
    values: tuple[int, ...]
    combine: str
    combiner: tuple[ChainStep, ...]
    results: tuple[int, ...]
    initial: tuple[TensorView, ...]
    outputs: tuple[TensorView, ...]

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Return the iteration space."""
        return self.chain.extents

    @property
    def inputs(self) -> list[ChainInput]:
        """Return the inputs of the chain."""
        return self.chain.inputs

    @property
    def steps(self) -> list[ChainStep]:
        """Return the steps of the chain."""
        return self.chain.steps

    @property
    def lookups(self) -> list[TensorView]:
        """Return the lookups of the chain."""
        return self.chain.lookups

    def reads(self) -> Iterator[Buffer]:
        yield from self.chain.reads()
        yield from (tensor.buffer for tensor in self.initial)

    def writes(self) -> Iterator[Buffer]:
        yield from (tensor.buffer for tensor in self.outputs)


@dataclass(eq=False)
class Matmul(Node):
    """A matmul, added to `addend` if there is one; operands have dims batch, row, column."""

    instruction = instructions.Matmul
    batch: Extent
    rows: Extent
    columns: Extent
    inner: Extent
    a: TensorView
    b: TensorView
    addend: TensorView | None
    output: TensorView

    @property
    def has_initial(self) -> bool:
        """Return whether the matmul has an addend."""
        return self.addend is not None

    @property
    def initial(self) -> TensorView:
        """Return the addend; without one, the output, which the instruction then ignores."""
        return self.output if self.addend is None else self.addend

    def reads(self) -> Iterator[Buffer]:
        yield self.a.buffer
        yield self.b.buffer
        if self.addend is not None:
            yield self.addend.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.output.buffer


@dataclass(eq=False)
class CopyTensor(Node):
    """A copy; `writes_all` if it writes every element of the destination's buffer.

    Such a copy does not read the destination, so the previous content is dead before it.
    """

    instruction = instructions.Copy
    source: TensorView
    destination: TensorView
    writes_all: bool = True

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Return the extents of the destination, which are those of the copy."""
        return self.destination.extents

    def reads(self) -> Iterator[Buffer]:
        yield self.source.buffer
        if not self.writes_all:
            yield self.destination.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.destination.buffer


@dataclass(eq=False)
class SortRows(Node):
    """A sort along the last dim of keys with their indices.

    The results have `kept` elements, from the one in the register `first` on.
    """

    instruction = instructions.Sort
    extents: tuple[Extent, ...]
    first: int
    kept: Extent
    run: int
    descending: bool
    keys: TensorView
    indices: TensorView
    sorted_keys: TensorView
    sorted_indices: TensorView

    def reads(self) -> Iterator[Buffer]:
        yield self.keys.buffer
        yield self.indices.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.sorted_keys.buffer
        yield self.sorted_indices.buffer


@dataclass(eq=False)
class WriteLiteral(Node):
    """Constant elements, as lanes, stored contiguously: the destination has one stride, 1."""

    instruction = instructions.Literal
    destination: TensorView
    values: tuple[int, ...]

    def writes(self) -> Iterator[Buffer]:
        yield self.destination.buffer


@dataclass(eq=False)
class IndexedTile(Node):
    """A gather from a table to a tile, or a scatter of a tile to a table; the other is read.

    The strides of the table are those of the points: that of the indexed dim is `step`.
    """

    instruction = instructions.Indexed
    scatter: bool
    combine: str
    extents: tuple[Extent, ...]
    index: TensorView
    tile: TensorView
    table: TensorView
    step: int
    first: int
    length: Extent
    size: int
    origin: tuple[int, ...]

    def reads(self) -> Iterator[Buffer]:
        yield from (tensor.buffer for tensor in (self.index, self.tile, self.table))

    def writes(self) -> Iterator[Buffer]:
        yield (self.table if self.scatter else self.tile).buffer


@dataclass(eq=False)
class PublishTiles(Node):
    """Publishes tiles of this core to other cores."""

    instruction = instructions.Publish
    channel: int
    tiles: tuple[TensorView, ...]

    def reads(self) -> Iterator[Buffer]:
        yield from (tile.buffer for tile in self.tiles)


@dataclass(eq=False)
class ReceiveTile(Node):
    """A copy of part of a published tile; `writes_all` as for `CopyTensor`."""

    instruction = instructions.Receive
    channel: int
    role: int
    producer: int
    source_offset: int
    source_strides: tuple[int, ...]
    destination: TensorView
    extents: tuple[Extent, ...]
    writes_all: bool

    def reads(self) -> Iterator[Buffer]:
        if not self.writes_all:
            yield self.destination.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.destination.buffer


@dataclass(eq=False)
class EndDelivery(Node):
    """The end of this core's round of a channel."""

    instruction = instructions.Delivered
    channel: int
    kind: DeliveryKind
    cores: int
    tile_bytes: int


@dataclass(eq=False)
class For(Node):
    """A loop; `carried` are the tensors of its iteration arguments, live around and in the loop."""

    variable: int
    lower: int
    upper: int
    step: int
    body: list[Node] = field(default_factory=list)
    carried: list[Buffer] = field(default_factory=list)


@dataclass(eq=False)
class If(Node):
    """A branch; `results` are the tensors that both regions yield."""

    condition: int
    then: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)
    results: list[Buffer] = field(default_factory=list)


def regions_of(node: Node) -> list[list[Node]]:
    """Return the regions of a node in program order."""
    match node:
        case For():
            return [node.body]
        case If():
            return [node.then, node.otherwise]
    return []


def yielded_by(node: Node) -> list[Buffer]:
    """Return the buffers that the regions of a node yield: they are live while the node runs."""
    match node:
        case For():
            return node.carried
        case If():
            return node.results
    return []

"""The kernel between KTIR and instructions: what is done, on values that have no address yet.

A node knows the buffers it reads and writes. Regions of loops and branches are lists of nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_spyre.backend.lowering.values import Buffer, Extent, TensorView
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
    place: int

    def reads(self) -> Iterator[Buffer]:
        yield from ()

    def writes(self) -> Iterator[Buffer]:
        yield from ()


@dataclass(eq=False)
class Plain(Node):
    """An instruction that touches registers only."""

    instruction: Instruction


@dataclass(eq=False)
class ExtractElement(Node):
    destination: int
    source: TensorView
    indices: tuple[int, ...]

    def reads(self) -> Iterator[Buffer]:
        yield self.source.buffer


@dataclass(eq=False)
class TileMove(Node):
    """A tile on its way to memory (`store`) or from it."""

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
    """`extents` and the tile's strides are in the order of the view's dims."""

    extents: tuple[Extent, ...]
    anchor: tuple[int, ...]
    views: tuple[View, ...]
    points: tuple[int, ...] = ()


@dataclass(eq=False)
class IndirectTile(TileMove):
    variables: tuple[Extent, ...]
    view: View
    subscripts: tuple[Subscript, ...]
    points: tuple[int, ...] = ()


@dataclass(frozen=True)
class ScalarInput:
    register: int
    type: ElementType


@dataclass(frozen=True)
class IndexInput:
    dimension: int


# A tensor input's extents are not those of the iteration space; its strides are.
ChainInput = TensorView | ScalarInput | IndexInput


@dataclass(frozen=True)
class Output:
    """Where a value goes; the strides are those of the iteration space."""

    value: int
    tensor: TensorView


@dataclass(eq=False)
class Elementwise(Node):
    """Values are numbered: inputs first, then the results of the steps."""

    extents: tuple[Extent, ...]
    inputs: list[ChainInput]
    steps: list[ChainStep]
    lookups: list[TensorView]
    outputs: list[Output]

    def reads(self) -> Iterator[Buffer]:
        yield from (found.buffer for found in self.inputs if isinstance(found, TensorView))
        yield from (found.buffer for found in self.lookups)

    def writes(self) -> Iterator[Buffer]:
        yield from (output.tensor.buffer for output in self.outputs)


@dataclass(eq=False)
class Reduction(Node):
    """`chain` has no outputs of its own: its `values` are folded."""

    chain: Elementwise
    reduced: tuple[int, ...]
    values: tuple[int, ...]
    combine: str
    combiner: tuple[ChainStep, ...]
    results: tuple[int, ...]
    initial: tuple[TensorView, ...]
    outputs: tuple[TensorView, ...]

    def reads(self) -> Iterator[Buffer]:
        yield from self.chain.reads()
        yield from (found.buffer for found in self.initial)

    def writes(self) -> Iterator[Buffer]:
        yield from (found.buffer for found in self.outputs)


@dataclass(eq=False)
class Product(Node):
    """Operands have three dims: batch, row, column."""

    batch: Extent
    rows: Extent
    columns: Extent
    inner: Extent
    a: TensorView
    b: TensorView
    initial: TensorView | None
    output: TensorView

    def reads(self) -> Iterator[Buffer]:
        yield self.a.buffer
        yield self.b.buffer
        if self.initial is not None:
            yield self.initial.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.output.buffer


@dataclass(eq=False)
class CopyTensor(Node):
    """`whole`: every element of the destination's buffer is written, so it starts a value."""

    source: TensorView
    destination: TensorView
    whole: bool = True

    def reads(self) -> Iterator[Buffer]:
        yield self.source.buffer
        if not self.whole:
            yield self.destination.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.destination.buffer


@dataclass(eq=False)
class WriteLiteral(Node):
    """Elements that the text spells out, as their codes."""

    destination: TensorView
    values: tuple[int, ...]

    def writes(self) -> Iterator[Buffer]:
        yield self.destination.buffer


@dataclass(eq=False)
class PublishTiles(Node):
    channel: int
    tiles: tuple[TensorView, ...]

    def reads(self) -> Iterator[Buffer]:
        yield from (tile.buffer for tile in self.tiles)


@dataclass(eq=False)
class ReceiveTile(Node):
    channel: int
    role: int
    producer: int
    source_offset: int
    source_strides: tuple[int, ...]
    destination: TensorView
    extents: tuple[Extent, ...]
    whole: bool

    def reads(self) -> Iterator[Buffer]:
        if not self.whole:
            yield self.destination.buffer

    def writes(self) -> Iterator[Buffer]:
        yield self.destination.buffer


@dataclass(eq=False)
class EndDelivery(Node):
    channel: int
    kind: DeliveryKind
    cores: int
    tile_bytes: int


@dataclass(eq=False)
class For(Node):
    """Tensors carried from trip to trip are in `carried`: live around the loop and in it."""

    variable: int
    lower: int
    upper: int
    step: int
    body: list[Node] = field(default_factory=list)
    carried: list[Buffer] = field(default_factory=list)


@dataclass(eq=False)
class If(Node):
    condition: int
    then: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)
    results: list[Buffer] = field(default_factory=list)


def regions_of(node: Node) -> list[list[Node]]:
    """The regions that a node is around, in the order of the text."""
    match node:
        case For():
            return [node.body]
        case If():
            return [node.then, node.otherwise]
    return []


def yielded_by(node: Node) -> list[Buffer]:
    """Buffers that the regions of a node hand on: they live as long as the node runs."""
    match node:
        case For():
            return node.carried
        case If():
            return node.results
    return []

"""The instructions of a device program and what they are made of.

All cores of the grid execute the same instructions; what differs is in the registers. A register is
a 64-bit slot, so sizes and addresses that are known and those that are not look the same: known
ones are in registers that the program's constants fill. The order of the fields is the order in
the file (docs/program.md), and that of csrc/emulator/engine/program.h.
"""

import enum
from dataclasses import dataclass, field
from typing import ClassVar

NO_REGISTER = -1
# Filled when a program starts: the core's flat id and its place in the grid.
CORE_REGISTER, CORE_X, CORE_Y, CORE_Z = 0, 1, 2, 3
FIRST_FREE_REGISTER = 4


class ElementType(enum.IntEnum):
    """Types of elements and scalars; `index` is I64."""

    F16 = 0
    BF16 = 1
    F32 = 2
    F8E4M3 = 3
    F8E5M2 = 4
    I1 = 5
    I8 = 6
    I16 = 7
    I32 = 8
    I64 = 9

    @property
    def bytes(self) -> int:
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        return self <= ElementType.F8E5M2


_BYTES = {
    ElementType.F16: 2,
    ElementType.BF16: 2,
    ElementType.F32: 4,
    ElementType.F8E4M3: 1,
    ElementType.F8E5M2: 1,
    ElementType.I1: 1,
    ElementType.I8: 1,
    ElementType.I16: 2,
    ElementType.I32: 4,
    ElementType.I64: 8,
}


class Space(enum.IntEnum):
    """Where a view looks."""

    GLOBAL = 0
    SCRATCHPAD = 1


class InputKind(enum.IntEnum):
    """Where a chain's input comes from."""

    OPERAND = 0
    SCALAR = 1
    INDEX = 2


class TermKind(enum.IntEnum):
    """Postfix arithmetic of subscripts."""

    CONSTANT = 0
    REGISTER = 1
    VARIABLE = 2
    ADD = 3
    MULTIPLY = 4
    FLOOR_DIVIDE = 5
    CEIL_DIVIDE = 6
    MODULO = 7


class DeliveryKind(enum.IntEnum):
    """How cores get what others published."""

    CONSUME = 0
    REDUCE = 1
    REDUCE_SCATTER = 2
    GATHER = 3
    ALL_TO_ALL = 4
    SCATTER = 5


@dataclass(frozen=True)
class Operand:
    """Elements in the core's scratchpad, inside the buffer [address, address + bytes)."""

    address: int
    bytes: int
    type: ElementType
    offset: int = NO_REGISTER  # register: elements to add
    strides: tuple[int, ...] = ()  # elements, one for each dimension of the instruction


@dataclass(frozen=True)
class View:
    """Memory as a kernel names it; `base`, `strides` and the rest are registers, in elements.

    A partition of a distributed view holds the global coordinates [lower, lower + extents).
    """

    space: Space
    type: ElementType
    core: int
    base: int
    strides: tuple[int, ...]
    lower: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Term:
    kind: TermKind
    value: int = 0


Expression = tuple[Term, ...]


@dataclass(frozen=True)
class Subscript:
    """A coordinate: an expression of the variables, or the element of `index` at several."""

    indirect: bool
    expressions: tuple[Expression, ...]
    index: View


@dataclass(frozen=True)
class Input:
    """An operand, a register's scalar everywhere, or the coordinate in one dimension (I64)."""

    kind: InputKind
    operand: Operand
    type: ElementType
    source: int = NO_REGISTER
    dimension: int = 0


@dataclass(frozen=True)
class ChainStep:
    """One vector instruction. Values are numbered: the inputs first, then the steps' results."""

    lookup: int  # -1, or the lookup whose element at the inputs' coordinates is the result
    op: str
    operand: ElementType
    result: ElementType
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Lookup:
    operand: Operand
    extents: tuple[int, ...]


@dataclass(frozen=True)
class ChainOutput:
    value: int
    operand: Operand


@dataclass(frozen=True)
class PublishedTile:
    address: int
    bytes: int


@dataclass(frozen=True)
class Instruction:
    """`place` is the index of the op in the kernel's text that this comes from."""

    opcode: ClassVar[int]
    mnemonic: ClassVar[str]
    place: int


@dataclass(frozen=True)
class LoopBegin(Instruction):
    """variable = lower; past `end` unless variable < upper."""

    opcode, mnemonic = 1, "loop"
    variable: int
    lower: int
    upper: int
    step: int
    end: int


@dataclass(frozen=True)
class LoopEnd(Instruction):
    opcode, mnemonic = 2, "next"
    begin: int


@dataclass(frozen=True)
class Branch(Instruction):
    """Goes to `target` when the condition is 0."""

    opcode, mnemonic = 3, "unless"
    condition: int
    target: int


@dataclass(frozen=True)
class Jump(Instruction):
    opcode, mnemonic = 4, "jump"
    target: int


@dataclass(frozen=True)
class Scalar(Instruction):
    opcode, mnemonic = 5, "scalar"
    op: str
    operand: ElementType
    result: ElementType
    destination: int
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Move(Instruction):
    opcode, mnemonic = 6, "move"
    destination: int
    source: int


@dataclass(frozen=True)
class Extract(Instruction):
    """One element of a tensor to a register."""

    opcode, mnemonic = 7, "extract"
    destination: int
    source: Operand
    indices: tuple[int, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Transfer(Instruction):
    """A tile between memory and scratchpad: element p lies at coordinate anchor + p of the view.

    With several views each is a partition. With `points` (coordinates one after the other) the tile
    is that list, and `extents` holds its length.
    """

    opcode, mnemonic = 8, "transfer"
    store: bool
    tile: Operand
    extents: tuple[int, ...]
    anchor: tuple[int, ...]
    views: tuple[View, ...]
    points: tuple[int, ...] = ()


@dataclass(frozen=True)
class IndirectTransfer(Instruction):
    """A tile whose coordinates are computed or read for each point of a space of variables.

    With `points` (their variables one after the other) the tile is that list, and `variables` holds
    its length.
    """

    opcode, mnemonic = 9, "indirect"
    store: bool
    tile: Operand
    variables: tuple[int, ...]
    view: View
    subscripts: tuple[Subscript, ...]
    points: tuple[int, ...] = ()


@dataclass(frozen=True)
class Chain(Instruction):
    """Elementwise work on one iteration space; no intermediate touches the scratchpad."""

    opcode, mnemonic = 10, "chain"
    extents: tuple[int, ...]
    inputs: tuple[Input, ...]
    steps: tuple[ChainStep, ...]
    lookups: tuple[Lookup, ...]
    outputs: tuple[ChainOutput, ...]


@dataclass(frozen=True)
class Reduce(Instruction):
    """A chain whose `values` are folded along the `reduced` dimensions.

    With a `combine` there is one value, accumulated in float32 (or its integer type), combined once
    with the initial value and rounded once. Else `combiner` folds accumulators (values 0..n-1) with
    the next elements (n..2n-1), and `results` are the new accumulators.
    """

    opcode, mnemonic = 11, "reduce"
    extents: tuple[int, ...]
    inputs: tuple[Input, ...]
    steps: tuple[ChainStep, ...]
    lookups: tuple[Lookup, ...]
    reduced: tuple[int, ...]
    values: tuple[int, ...]
    combine: str  # "" for a combiner of several steps
    combiner: tuple[ChainStep, ...]
    results: tuple[int, ...]
    initial: tuple[Operand, ...]
    outputs: tuple[Operand, ...]


@dataclass(frozen=True)
class MatrixProduct(Instruction):
    """output = round(initial + a b); strides are for batch, row and column."""

    opcode, mnemonic = 12, "matmul"
    batch: int
    rows: int
    columns: int
    inner: int
    a: Operand
    b: Operand
    has_initial: bool
    initial: Operand
    output: Operand


@dataclass(frozen=True)
class Copy(Instruction):
    """Elements as they are, to another place of the scratchpad."""

    opcode, mnemonic = 13, "copy"
    extents: tuple[int, ...]
    source: Operand
    destination: Operand


@dataclass(frozen=True)
class Publish(Instruction):
    """Offers tiles of this core to others, one per role."""

    opcode, mnemonic = 14, "publish"
    channel: int
    tiles: tuple[PublishedTile, ...]


@dataclass(frozen=True)
class Receive(Instruction):
    """Takes part of what `producer` published in this round of the channel; waits for it."""

    opcode, mnemonic = 15, "receive"
    channel: int
    role: int
    producer: int
    source_offset: int
    source_strides: tuple[int, ...]
    destination: Operand
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Delivered(Instruction):
    """This core has all it wants of this round."""

    opcode, mnemonic = 16, "delivered"
    channel: int
    kind: DeliveryKind
    cores: int
    tile_bytes: int


@dataclass(frozen=True)
class TableLookup(Instruction):
    """destination = tables[table][core][index], or that list's length without an index."""

    opcode, mnemonic = 17, "table"
    destination: int
    table: int
    index: int = NO_REGISTER


@dataclass(frozen=True)
class Literal(Instruction):
    """Elements spelled out: float32 bits, rounded to the operand's type, or integers."""

    opcode, mnemonic = 18, "literal"
    destination: Operand
    values: tuple[int, ...]


INSTRUCTIONS: dict[int, type[Instruction]] = {
    kind.opcode: kind for kind in Instruction.__subclasses__()
}


@dataclass(frozen=True)
class Constant:
    """`bits` fill the register: an integer, or a float32 in the low half."""

    register: int
    bits: int


@dataclass(frozen=True)
class Argument:
    """A scalar, or an array whose address in elements goes to the register.

    `shape` is that of the view on it, where the kernel has just one plain view; it is checked.
    """

    name: str
    is_array: bool
    register: int
    type: ElementType
    has_shape: bool = False
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class FixedBuffer:
    """Memory at an address that the kernel's text fixes. `name` is that of the first view."""

    name: str
    address: int
    bytes: int
    type: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """Where an instruction comes from."""

    op: str
    line: int
    column: int


@dataclass(frozen=True)
class ProgramContent:
    """Everything a program is; `Program` adds the file form and its hash."""

    name: str
    grid: tuple[int, ...]
    registers: int
    constants: tuple[Constant, ...]
    arguments: tuple[Argument, ...]
    fixed_buffers: tuple[FixedBuffer, ...]
    scratchpad_bytes: int
    channels: int
    tables: tuple[tuple[tuple[int, ...], ...], ...]
    places: tuple[Place, ...]
    code: tuple[Instruction, ...] = field(default=())

"""The instruction set of the card: one frozen dataclass per record and per instruction.

This is the only description. The file form (`encoding.py`), the C++ structs, reader and checks
(csrc/emulator/engine/generated/instructions.h) and the tables in docs/program.md derive from the
classes, their docstrings and the roles of their fields. `make generate` writes the derived files.

All cores of the grid execute the same instructions; only their registers differ. A register is a
64-bit slot, so sizes and addresses known at compile time look like those that are not: the known
ones are in registers that the program's constants fill. The order of fields is that of the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_spyre.backend.program.element_types import ElementType as ElementType
from torch_spyre.backend.program.fields import (
    Channel,
    CodeIndex,
    Destination,
    Int32,
    Integers,
    Limit,
    Location,
    LookupIndex,
    Op,
    OptionalOp,
    OptionalSource,
    Points,
    ReductionOp,
    Size,
    Size32,
    Sizes,
    Source,
    Sources,
    Table,
    ValueNumbers,
)
from torch_spyre.backend.program.fields import DeliveryKind as DeliveryKind
from torch_spyre.backend.program.fields import InputKind as InputKind
from torch_spyre.backend.program.fields import Space as Space
from torch_spyre.backend.program.fields import TermKind as TermKind

NO_REGISTER = -1
# Filled when a program starts: the core's flat id and its coordinates in the grid.
CORE_REGISTER, CORE_X, CORE_Y, CORE_Z = 0, 1, 2, 3
FIRST_FREE_REGISTER = 4

# --- Records that instructions consist of ---------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """Elements in the core's scratchpad, inside the buffer [`address`, `address` + `bytes`).

    `offset` is a register that counts elements. There is one stride, in elements, for each
    dimension of the instruction.
    """

    address: int
    bytes: int
    type: ElementType
    offset: OptionalSource = NO_REGISTER
    strides: Integers = ()


@dataclass(frozen=True)
class View:
    """Memory as a kernel addresses it; registers hold all quantities, in elements.

    A scratchpad view addresses the window of `core`, or of the executing core if there is none. A
    view with `lower` is a partition: it holds the global coordinates [`lower`, `lower` +
    `extents`).
    """

    space: Space
    type: ElementType
    core: OptionalSource
    base: Source
    strides: Sources
    lower: Sources = ()
    extents: Sources = ()


@dataclass(frozen=True)
class Term:
    """One term of a postfix expression on 64-bit integers.

    `value` is the constant, or the number of the register or variable.
    """

    kind: TermKind
    value: int = 0


Expression = Annotated[tuple[Term, ...], Limit.TERMS]


@dataclass(frozen=True)
class Subscript:
    """A coordinate: the value of one expression, or the element of `index` at all of them."""

    indirect: bool
    expressions: Annotated[tuple[Expression, ...], Limit.RANK]
    index: View


@dataclass(frozen=True)
class Input:
    """A value of a chain: an operand, a register's scalar, or the coordinate in a dimension (i64).

    `type` is the type of the value.
    """

    kind: InputKind
    operand: Operand
    type: ElementType
    source: OptionalSource = NO_REGISTER
    dimension: Int32 = 0


@dataclass(frozen=True)
class ChainStep:
    """A vector instruction on values of a chain, by number.

    With a `lookup` that is not -1 the step instead returns the element of that lookup at the
    coordinates in `inputs`.
    """

    lookup: LookupIndex
    op: OptionalOp
    operand: ElementType
    result: ElementType
    inputs: ValueNumbers


@dataclass(frozen=True)
class Lookup:
    """A tensor that steps index; an index out of bounds is an `IndexError`."""

    operand: Operand
    extents: Sources


@dataclass(frozen=True)
class ChainOutput:
    """The operand that a value of a chain is stored to."""

    value: Int32
    operand: Operand


@dataclass(frozen=True)
class PublishedTile:
    """The buffer that one role of a channel offers."""

    address: int
    bytes: int


# --- Instructions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instruction:
    """`location` is the index of the source location of the op that the instruction comes from."""

    opcode: ClassVar[int]
    mnemonic: ClassVar[str]
    # The line in listings, with fields in braces; empty if `listing` has a function for it.
    form: ClassVar[str] = ""
    location: Location


@dataclass(frozen=True)
class LoopBegin(Instruction):
    """Sets variable = lower; continues after the loop's `next`, at `end`, unless variable < upper.

    A step that is not positive is an error.
    """

    opcode, mnemonic = 1, "loop"
    form = "for {variable} = {lower} to {upper} step {step}"
    variable: Destination
    lower: Source
    upper: Source
    step: Source
    end: CodeIndex


@dataclass(frozen=True)
class LoopEnd(Instruction):
    """Adds the step of the loop at `begin`; continues with its body while variable < upper."""

    opcode, mnemonic = 2, "next"
    form = "next {begin}"
    begin: CodeIndex


@dataclass(frozen=True)
class Branch(Instruction):
    """Continues at `target` if the condition, an i1, is 0."""

    opcode, mnemonic = 3, "unless"
    form = "unless {condition} goto {target}"
    condition: Source
    target: CodeIndex


@dataclass(frozen=True)
class Jump(Instruction):
    """Continues at `target`."""

    opcode, mnemonic = 4, "jump"
    form = "goto {target}"
    target: CodeIndex


@dataclass(frozen=True)
class Scalar(Instruction):
    """Executes a vector instruction on registers."""

    opcode, mnemonic = 5, "scalar"
    op: Op
    operand: ElementType
    result: ElementType
    destination: Destination
    inputs: Sources


@dataclass(frozen=True)
class Move(Instruction):
    """Copies a register."""

    opcode, mnemonic = 6, "move"
    form = "{destination} = {source}"
    destination: Destination
    source: Source


@dataclass(frozen=True)
class Extract(Instruction):
    """Loads one element of a tensor to a register; an index out of bounds is an `IndexError`."""

    opcode, mnemonic = 7, "extract"
    form = "{destination} = element ({indices}) of {source}"
    destination: Destination
    source: Operand
    indices: Sources
    extents: Sources


@dataclass(frozen=True)
class Transfer(Instruction):
    """Loads a tile from memory, or stores it: element p is at coordinate anchor + p of the view.

    Several views are partitions of one. With `points`, coordinates one after the other, the tile
    is this list, and `extents` holds its length.
    """

    opcode, mnemonic = 8, "transfer"
    store: bool
    tile: Operand
    extents: Sources
    anchor: Sources
    views: Annotated[tuple[View, ...], Limit.VIEWS]
    points: Points = ()


@dataclass(frozen=True)
class IndirectTransfer(Instruction):
    """Loads or stores a tile whose coordinates are computed for each point of `variables`.

    With `points`, variables one after the other, the tile is this list, and `variables` holds its
    length. If a store has equal coordinates, the last one wins.
    """

    opcode, mnemonic = 9, "indirect"
    store: bool
    tile: Operand
    variables: Sources
    view: View
    subscripts: Annotated[tuple[Subscript, ...], Limit.RANK]
    points: Points = ()


@dataclass(frozen=True)
class ChainBody(Instruction):
    """The elementwise part that `chain` and `reduce` have in common.

    Values are numbered: the inputs first, then the results of the steps.
    """

    extents: Sources
    inputs: Annotated[tuple[Input, ...], Limit.STEPS]
    steps: Annotated[tuple[ChainStep, ...], Limit.STEPS]
    lookups: Annotated[tuple[Lookup, ...], Limit.STEPS]


@dataclass(frozen=True)
class Chain(ChainBody):
    """Computes elementwise on one iteration space; no intermediate is in the scratchpad."""

    opcode, mnemonic = 10, "chain"
    outputs: Annotated[tuple[ChainOutput, ...], Limit.STEPS]


@dataclass(frozen=True)
class Reduce(ChainBody):
    """Reduces `values` of a chain along the `reduced` dimensions.

    With a `combine`, the name of a vector instruction, there is one value, accumulated in f32 or
    the integer type and rounded once. Otherwise the steps of `combiner` combine the accumulators
    (values 0 to n-1) with the next elements (n to 2n-1), and `results` are the new accumulators.
    `initial` values are combined in once; there may be none. `initial` and `outputs` have stride 0
    in reduced dimensions.
    """

    opcode, mnemonic = 11, "reduce"
    reduced: ValueNumbers
    values: ValueNumbers
    combine: ReductionOp
    combiner: Annotated[tuple[ChainStep, ...], Limit.STEPS]
    results: ValueNumbers
    initial: Annotated[tuple[Operand, ...], Limit.STEPS]
    outputs: Annotated[tuple[Operand, ...], Limit.STEPS]


@dataclass(frozen=True)
class Matmul(Instruction):
    """Computes output = round(initial + a b); operands have strides for batch, row and column."""

    opcode, mnemonic = 12, "matmul"
    batch: Source
    rows: Source
    columns: Source
    inner: Source
    a: Operand
    b: Operand
    has_initial: bool
    initial: Operand
    output: Operand


@dataclass(frozen=True)
class Copy(Instruction):
    """Copies elements unchanged inside the scratchpad; source and destination do not overlap."""

    opcode, mnemonic = 13, "copy"
    form = "copy {source} to {destination}"
    extents: Sources
    source: Operand
    destination: Operand


@dataclass(frozen=True)
class Publish(Instruction):
    """Offers tiles of this core to other cores, one for each role of the channel."""

    opcode, mnemonic = 14, "publish"
    form = "publish {tiles} on channel {channel}"
    channel: Channel
    tiles: Annotated[tuple[PublishedTile, ...], Limit.ROLES]


@dataclass(frozen=True)
class Receive(Instruction):
    """Copies part of a tile that core `producer` published in this round; waits for it.

    `source_offset` and `source_strides` count elements of the published tile.
    """

    opcode, mnemonic = 15, "receive"
    channel: Channel
    role: Int32
    producer: Source
    source_offset: OptionalSource
    source_strides: Integers
    destination: Operand
    extents: Sources


@dataclass(frozen=True)
class Delivered(Instruction):
    """Ends this core's round of the channel; the other fields are for the timing model."""

    opcode, mnemonic = 16, "delivered"
    form = "delivered {kind} on channel {channel}: {cores} cores, {tile_bytes} bytes each"
    channel: Channel
    kind: DeliveryKind
    cores: Size32
    tile_bytes: Size


@dataclass(frozen=True)
class TableLookup(Instruction):
    """Loads tables[table][core][index], or the length of that list if there is no index."""

    opcode, mnemonic = 17, "table"
    destination: Destination
    table: Table
    index: OptionalSource = NO_REGISTER


@dataclass(frozen=True)
class Literal(Instruction):
    """Writes constant elements: f32 bits, rounded to the operand's type, or integers."""

    opcode, mnemonic = 18, "literal"
    destination: Operand
    values: Points


@dataclass(frozen=True)
class Sort(Instruction):
    """Sorts keys along the last dimension, and moves their indices (i32) with them.

    Equal keys are sorted by index. Zeros are equal; NaNs are equal, and larger than all other keys.
    Of each row, `kept` elements are written, from the element `first` on. If it is not 0, they are
    the last ones, and at least half of the row. The keys are runs of `run` sorted elements; the
    last may be shorter.
    """

    opcode, mnemonic = 19, "sort"
    extents: Sources
    first: Source
    kept: Source
    run: Size
    descending: bool
    keys: Operand
    indices: Operand
    sorted_keys: Operand
    sorted_indices: Operand


@dataclass(frozen=True)
class Indexed(Instruction):
    """Gathers elements of a table in the scratchpad to a tile, or scatters those of a tile to it.

    A point of `extents` selects the element of the table at the point, moved by `index` - `first`
    times `step`. Points whose index is not among the `length` indices from `first` on do nothing.
    A scatter stores the tile's element, or its combination with the table's by the vector
    instruction `combine`, one point after the other in row-major order. An index outside of
    [0, `size`) is an `IndexError` at the position `origin` + point.
    """

    opcode, mnemonic = 20, "indexed"
    scatter: bool
    combine: ReductionOp
    extents: Sources
    index: Operand
    tile: Operand
    table: Operand
    step: Size
    first: Source
    length: Source
    size: Source
    origin: Sources


# --- The program ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constant:
    """`bits` fill the register: an integer, or an f32 in the low half."""

    destination: Destination
    bits: int


@dataclass(frozen=True)
class Argument:
    """A scalar, or an array whose address in elements goes to the register.

    `shape` is that of the only plain view of the array, if there is exactly one; launches check it.
    """

    name: str
    is_array: bool
    destination: Destination
    type: ElementType
    has_shape: bool = False
    shape: Sizes = ()


@dataclass(frozen=True)
class FixedBuffer:
    """Memory at an address that the kernel's text fixes; `name` is that of the first view."""

    name: str
    address: int
    bytes: int
    type: ElementType
    shape: Sizes


@dataclass(frozen=True)
class SourceLocation:
    """The op of the kernel's text that instructions come from."""

    op: str
    line: int
    column: int


@dataclass(frozen=True)
class ProgramContent:
    """The content of a program file; `tables[table][core]` is a list of integers.

    `scratchpad_bytes` is what the tensors need in each core.
    """

    name: str
    grid: Annotated[tuple[int, ...], Limit.GRID]
    registers: Int32
    constants: Annotated[tuple[Constant, ...], Limit.REGISTERS]
    arguments: Annotated[tuple[Argument, ...], Limit.ARGUMENTS]
    fixed_buffers: Annotated[tuple[FixedBuffer, ...], Limit.ARGUMENTS]
    scratchpad_bytes: int
    channels: Int32
    tables: Annotated[tuple[Annotated[tuple[Points, ...], Limit.CORES], ...], Limit.TABLES]
    locations: Annotated[tuple[SourceLocation, ...], Limit.INSTRUCTIONS]
    code: Annotated[tuple[Instruction, ...], Limit.INSTRUCTIONS] = ()


def _concrete_instructions(kind: type[Instruction]) -> Iterator[type[Instruction]]:
    """Yield the classes below `kind` that have an opcode."""
    for subclass in kind.__subclasses__():
        if "opcode" in vars(subclass):
            yield subclass
        yield from _concrete_instructions(subclass)


INSTRUCTIONS: dict[int, type[Instruction]] = {
    kind.opcode: kind
    for kind in sorted(_concrete_instructions(Instruction), key=lambda kind: kind.opcode)
}

"""The types of the fields of instructions: roles of integers and texts, enums, and limits.

A role is attached to a field with `Annotated`, so that Python code still sees `int` and `str`. The
C++ reader and checker get the same roles (csrc/emulator/engine/generated/instructions.h).
"""

import enum
from typing import Annotated


class Role(enum.Enum):
    """The meaning of an integer or text field; the loader checks what a role demands."""

    VALUE = "any value of its type"
    SOURCE = "a register that is read"
    OPTIONAL_SOURCE = "a register that is read, or -1 for none"
    DESTINATION = "a register that is written, not one that the card fills"
    CODE_INDEX = "the index of an instruction"
    LOCATION = "an index into the program's source locations"
    CHANNEL = "the number of a channel"
    LOOKUP = "an index into the lookups of the chain, or -1 for none"
    TABLE = "an index into the program's tables"
    SIZE = "an integer that is not negative"
    OP = "the name of a vector instruction"
    OPTIONAL_OP = "the name of a vector instruction, or an empty text"
    REDUCTION = "the name of a vector instruction that reduces, or an empty text"


class Limit(enum.Enum):
    """The maximum length of a list, so that no file makes its reader run out of memory.

    The limits are far above what kernels need.
    """

    maximum: int

    def __new__(cls, maximum: int) -> "Limit":
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)  # Limits may be equal without being the same.
        member.maximum = maximum
        return member

    GRID = 3
    RANK = 16
    ROLES = 64
    TERMS = 1 << 10
    CORES = 1 << 10
    ARGUMENTS = 1 << 12
    TABLES = 1 << 12
    VIEWS = 1 << 12
    STEPS = 1 << 12
    REGISTERS = 1 << 18
    INSTRUCTIONS = 1 << 20
    POINTS = 1 << 26


class Space(enum.IntEnum):
    """The memory that a view addresses."""

    GLOBAL = 0
    SCRATCHPAD = 1


class InputKind(enum.IntEnum):
    """The source of a chain's input."""

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
    """The KTIR op that a delivery comes from, for the timing model."""

    CONSUME = 0
    REDUCE = 1
    REDUCE_SCATTER = 2
    GATHER = 3
    ALL_TO_ALL = 4
    SCATTER = 5


class Width(enum.Enum):
    """The width of a plain integer where it is not 64 bits."""

    INT32 = 32


Int32 = Annotated[int, Width.INT32]
Source = Annotated[int, Width.INT32, Role.SOURCE]
OptionalSource = Annotated[int, Width.INT32, Role.OPTIONAL_SOURCE]
Destination = Annotated[int, Width.INT32, Role.DESTINATION]
CodeIndex = Annotated[int, Width.INT32, Role.CODE_INDEX]
Location = Annotated[int, Width.INT32, Role.LOCATION]
Channel = Annotated[int, Width.INT32, Role.CHANNEL]
LookupIndex = Annotated[int, Width.INT32, Role.LOOKUP]
Table = Annotated[int, Width.INT32, Role.TABLE]
Size = Annotated[int, Role.SIZE]
Size32 = Annotated[int, Width.INT32, Role.SIZE]
Op = Annotated[str, Role.OP]
OptionalOp = Annotated[str, Role.OPTIONAL_OP]
ReductionOp = Annotated[str, Role.REDUCTION]

# Lists of one item per dimension.
Sources = Annotated[tuple[Source, ...], Limit.RANK]
Integers = Annotated[tuple[int, ...], Limit.RANK]
Sizes = Annotated[tuple[Size, ...], Limit.RANK]
# Values of a chain, or dimensions, by number.
ValueNumbers = Annotated[tuple[Int32, ...], Limit.STEPS]
Points = Annotated[tuple[int, ...], Limit.POINTS]

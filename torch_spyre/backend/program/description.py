"""The instruction set as plain data: every record with the names and types of its fields.

The generator of the derived files and the test that compares Python with C++ use it.
"""

import dataclasses
import enum
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from torch_spyre.backend.program.fields import Limit, Role, Width
from torch_spyre.backend.program.instructions import INSTRUCTIONS, Instruction, ProgramContent


@dataclass(frozen=True)
class FieldType:
    """The type of a field: an item, in as many nested lists as there are limits.

    `item` is int, bool, str, an enum or a record. The limit of the outermost list comes first.
    """

    item: type
    role: Role
    bits: int
    limits: tuple[Limit, ...]

    @property
    def item_name(self) -> str:
        """Return the name that Python and C++ use for the type of an item."""
        return {int: f"int{self.bits}", bool: "bool", str: "text"}.get(
            self.item, self.item.__name__
        )

    def __str__(self) -> str:
        lists = "".join(f"[{limit.maximum}]" for limit in self.limits)
        return f"{self.item_name}{lists} {self.role.name.lower()}"


@dataclass(frozen=True)
class Field:
    """A field of a record."""

    name: str
    type: FieldType


def field_type(hint: Any) -> FieldType:
    """Return the type that an annotation states."""
    role, bits, limits, depth = Role.VALUE, 64, [], 0
    while True:
        if typing.get_origin(hint) is Annotated:
            hint, *metadata = typing.get_args(hint)
            limits += [entry for entry in metadata if isinstance(entry, Limit)]
            for entry in metadata:
                role = entry if isinstance(entry, Role) else role
                bits = entry.value if isinstance(entry, Width) else bits
        elif typing.get_origin(hint) is tuple:
            hint, depth = typing.get_args(hint)[0], depth + 1
        else:
            break
    if len(limits) != depth:
        raise TypeError(f"{hint} is in {depth} lists, {len(limits)} of which have a limit")
    return FieldType(hint, role, bits, tuple(limits))


def fields_of(record: type) -> tuple[Field, ...]:
    """Return all fields of a record in the order of the file, those of its bases first."""
    if record not in _FIELDS:
        hints = typing.get_type_hints(record, include_extras=True)
        _FIELDS[record] = tuple(
            Field(field.name, field_type(hints[field.name])) for field in dataclasses.fields(record)
        )
    return _FIELDS[record]


_FIELDS: dict[type, tuple[Field, ...]] = {}


def own_fields(record: type) -> tuple[Field, ...]:
    """Return the fields that a record does not inherit."""
    base = record.__base__
    inherited = len(dataclasses.fields(base)) if dataclasses.is_dataclass(base) else 0
    return fields_of(record)[inherited:]


def meaning_of(record: type) -> str:
    """Return the docstring of a record as one line."""
    return " ".join((record.__doc__ or "").split())


def records() -> tuple[type, ...]:
    """Return every record but instructions, each after the records that it consists of."""
    ordered: dict[type, None] = {}
    for root in (*INSTRUCTIONS.values(), ProgramContent):
        _add_records(root, ordered)
    return tuple(kind for kind in ordered if not issubclass(kind, Instruction))


def _add_records(record: type, ordered: dict[type, None]) -> None:
    for item in _items(record):
        if dataclasses.is_dataclass(item) and item not in ordered and item is not Instruction:
            _add_records(item, ordered)
    ordered[record] = None


def _items(record: type) -> Iterator[type]:
    yield from (field.type.item for field in fields_of(record))


def enums() -> tuple[type[enum.IntEnum], ...]:
    """Return the enums that fields have, except for element types."""
    kinds = (*records(), *INSTRUCTIONS.values())
    items = dict.fromkeys(item for kind in kinds for item in _items(kind))
    return tuple(
        item for item in items if issubclass(item, enum.IntEnum) and item.__name__ != "ElementType"
    )


def describe() -> list[tuple[str, int, str, list[tuple[str, str]]]]:
    """Return name, opcode, mnemonic and fields of every record, as `_C._instruction_set()` does.

    A record that is not an instruction has opcode 0 and an empty mnemonic.
    """
    described = [(kind.__name__, 0, "", _described(fields_of(kind))) for kind in records()]
    for opcode, kind in INSTRUCTIONS.items():
        # `location` is outside the C++ struct.
        fields = fields_of(kind)[len(dataclasses.fields(Instruction)) :]
        described.append((kind.__name__, opcode, kind.mnemonic, _described(fields)))
    return described


def _described(fields: tuple[Field, ...]) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in fields]

"""Writes the files that derive from the description of the instruction set.

The description is torch_spyre/backend/program/{instructions,element_types,vector_instructions}.py.
`python scripts/generate_instruction_set.py` writes the C++ files in csrc/emulator/engine/generated
and the generated sections of docs/program.md; with `--check` it only reports stale ones.
"""

import enum
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from generated_sections import ROOT, Sections, markdown_table, page, write_files

from torch_spyre.backend.program.description import (
    Field,
    enums,
    fields_of,
    meaning_of,
    own_fields,
    records,
)
from torch_spyre.backend.program.element_types import ElementType
from torch_spyre.backend.program.fields import Limit, Role
from torch_spyre.backend.program.instructions import (
    INSTRUCTIONS,
    Instruction,
    ProgramContent,
)
from torch_spyre.backend.program.vector_instructions import VECTOR_INSTRUCTIONS

GENERATED = ROOT / "torch_spyre/csrc/emulator/engine/generated"
PAGE = ROOT / "docs/program.md"
_WIDTH = 100
_BANNER = """\
// Written by scripts/generate_instruction_set.py from torch_spyre/backend/program: do not edit.
// clang-format off
"""
# Fields that the engine fills when it loads a program; they are not part of the file.
_ENGINE_FIELDS = {
    "Transfer": "int32_t direct_tile = kNoDirectTile;  // see direct_tiles.h",
    "Matmul": "int32_t direct_tile = kNoDirectTile;  // of b",
}


# --- C++ ------------------------------------------------------------------------------------------


def _camel(name: str) -> str:
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def _limit(limit: Limit) -> str:
    return f"kMax{_camel(limit.name)[1:]}"


def _comment(text: str) -> Iterator[str]:
    text = text.replace("`", "")
    yield from (f"// {line}" for line in textwrap.wrap(text, _WIDTH - 3))


def _item_type(field: Field) -> str:
    kind = field.type
    match kind.role:
        case Role.OP | Role.OPTIONAL_OP:
            return "VectorOp"
        case Role.REDUCTION:
            return "std::optional<VectorOp>"
        case Role.SOURCE | Role.OPTIONAL_SOURCE | Role.DESTINATION:
            return "Register"
    plain = {int: f"int{kind.bits}_t", bool: "bool", str: "std::string"}
    return plain.get(kind.item, kind.item.__name__)


def _member(field: Field) -> str:
    """Return the declaration of a field."""
    kind = _item_type(field)
    if field.type.limits == (Limit.GRID,):
        return f"std::array<{kind}, {_limit(Limit.GRID)}> {field.name}{{1, 1, 1}};"
    for _ in field.type.limits:
        kind = f"std::vector<{kind}>"
    initial = ""
    if not field.type.limits:
        initial = {
            Role.OPTIONAL_SOURCE: " = kNoRegister",
            Role.LOOKUP: " = kNoLookup",
            Role.OPTIONAL_OP: " = kNoVectorOp",
        }.get(field.type.role, "{}")
    return f"{kind} {field.name}{'' if field.type.limits else initial};"


def _visit(field: Field) -> str:
    limits = ", ".join(map(_limit, field.type.limits))
    role = f"Role::{_camel(field.type.role.name)}"
    return f'visit(FieldInfo{{"{field.name}", {role}, {{{limits}}}}}, self.{field.name});'


def _struct(record: type, base: str, fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the lines of a struct: its members, and a visitor of all of them in order."""
    yield from _comment(meaning_of(record))
    yield f"struct {record.__name__}{f' : {base}' if base else ''} {{"
    yield f'  static constexpr std::string_view kName = "{record.__name__}";'
    if "opcode" in vars(record) and issubclass(record, Instruction):
        yield f"  static constexpr int64_t kOpcode = {record.opcode};"
        yield f'  static constexpr std::string_view kMnemonic = "{record.mnemonic}";'
    yield from (f"  {_member(field)}" for field in fields)
    if record.__name__ in _ENGINE_FIELDS:
        yield f"  {_ENGINE_FIELDS[record.__name__]}"
    yield ""
    yield "  template <typename Self, typename Visitor>"
    yield "  static void visit_fields(Self& self, Visitor&& visit) {"
    if base:
        yield f"    {base}::visit_fields(self, visit);"
    yield from (f"    {_visit(field)}" for field in fields)
    yield "  }"
    yield "};"
    yield ""


def _enum(kind: type[enum.IntEnum]) -> Iterator[str]:
    yield from _comment(meaning_of(kind))
    yield f"enum class {kind.__name__} : uint8_t {{"
    yield from (f"  {_camel(member.name)} = {member.value}," for member in kind)
    yield "};"
    yield "template <>"
    yield f"struct EnumInfo<{kind.__name__}> {{"
    yield f'  static constexpr std::string_view kName = "{kind.__name__}";'
    yield f"  static constexpr int64_t kCount = {len(kind)};"
    yield "};"
    yield ""


def _all_structs() -> Iterator[str]:
    """Yield the structs of records, of instructions and of the program, in order of use."""
    for record in records():
        if record is not ProgramContent:
            yield from _struct(record, "", fields_of(record))
    bases: set[type] = {Instruction}
    for kind in INSTRUCTIONS.values():
        base = kind.__base__
        assert base is not None
        if base not in bases:
            bases.add(base)
            yield from _struct(base, "", own_fields(base))
        yield from _struct(kind, "" if base is Instruction else base.__name__, own_fields(kind))
    yield "// What an instruction does; alternative i has the opcode i + 1."
    alternatives = ", ".join(kind.__name__ for kind in INSTRUCTIONS.values())
    yield from textwrap.wrap(
        f"using Action = std::variant<{alternatives}>;", _WIDTH, subsequent_indent=" " * 28
    )
    yield ""
    yield from _struct(Instruction, "", own_fields(Instruction))
    yield from _struct(ProgramContent, "", fields_of(ProgramContent))


def instructions_header() -> str:
    """Return the C++ structs of the instruction set."""
    structs = "\n".join(_all_structs())
    # The action is not a field of the file: the opcode selects its alternative.
    structs = structs.replace(
        "  int32_t location{};\n", "  int32_t location{};\n  Action action;\n", 1
    )
    enum_lines = "\n".join(line for kind in enums() for line in _enum(kind))
    return f"""{_BANNER}#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emulator/engine/element_type.h"
#include "emulator/engine/instruction_fields.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {{

{enum_lines}
{structs}
}}  // namespace spyre::emulator::engine
"""


def limits_list() -> str:
    """Return the limits of lists as C++ constants."""
    lines = (f"inline constexpr size_t {_limit(limit)} = {limit.maximum};" for limit in Limit)
    return _BANNER + "\n".join(lines) + "\n"


def element_types_list() -> str:
    """Return the element types as an X-macro list."""
    lines = [
        "// SPYRE_ELEMENT_TYPE(enumerator, code, bits, bytes, is_float, MLIR name)",
        *(
            f"SPYRE_ELEMENT_TYPE({kind.name}, {kind.value}, {kind.bits}, {kind.bytes}, "
            f'{str(kind.is_float).lower()}, "{kind.mlir_name}")'
            for kind in ElementType
        ),
        "#undef SPYRE_ELEMENT_TYPE",
    ]
    return _BANNER + "\n".join(lines) + "\n"


def vector_instructions_list() -> str:
    """Return the vector instructions as X-macro lists."""
    lines = [
        "// SPYRE_VECTOR_INSTRUCTION(enumerator, code, name, operands, signature, cost)",
        "#ifdef SPYRE_VECTOR_INSTRUCTION",
    ]
    for entry in VECTOR_INSTRUCTIONS:
        lines += _comment(entry.meaning)
        lines.append(
            f"SPYRE_VECTOR_INSTRUCTION({entry.mnemonic.upper()}, {entry.code}, "
            f'"{entry.mnemonic}", {entry.num_operands}, {entry.signature.name}, '
            f"{_camel(entry.cost.name)})"
        )
    lines += [
        "#undef SPYRE_VECTOR_INSTRUCTION",
        "#endif",
        "// SPYRE_REDUCTION(enumerator, how lanes are combined)",
        "#ifdef SPYRE_REDUCTION",
        *(
            f"SPYRE_REDUCTION({entry.mnemonic.upper()}, {entry.reduction.combine})"
            for entry in VECTOR_INSTRUCTIONS
            if entry.reduction is not None
        ),
        "#undef SPYRE_REDUCTION",
        "#endif",
    ]
    return _BANNER + "\n".join(lines) + "\n"


# --- Documentation --------------------------------------------------------------------------------


def _names(fields: Iterable[Field]) -> str:
    return ", ".join(f"`{field.name}`" for field in fields)


def _record_rows(kinds: Iterable[type]) -> Iterator[tuple[str, ...]]:
    for kind in kinds:
        yield f"`{kind.__name__}`", _names(fields_of(kind)), meaning_of(kind)


def _program_records() -> tuple[type, ...]:
    parts = {field.type.item for field in fields_of(ProgramContent)}
    return (ProgramContent, *(kind for kind in records() if kind in parts))


def _program_table() -> str:
    return markdown_table(
        ("record", "fields in order", "meaning"), _record_rows(_program_records())
    )


def _element_type_table() -> str:
    rows = (
        (str(kind.value), f"`{kind.mlir_name}`", str(kind.bits), str(kind.bytes))
        for kind in ElementType
    )
    return markdown_table(("code", "type", "bits", "bytes in memory"), rows)


def _enum_table() -> str:
    rows = (
        (
            f"`{kind.__name__}`",
            ", ".join(f"{member.value} {member.name.lower().replace('_', ' ')}" for member in kind),
            meaning_of(kind),
        )
        for kind in enums()
    )
    return markdown_table(("enum", "values", "meaning"), rows)


def _record_table() -> str:
    kinds = (kind for kind in records() if kind not in _program_records())
    return markdown_table(("record", "fields in order", "meaning"), _record_rows(kinds))


def _instruction_table() -> str:
    rows = (
        (str(opcode), f"`{kind.mnemonic}`", _names(fields_of(kind)[1:]), meaning_of(kind))
        for opcode, kind in INSTRUCTIONS.items()
    )
    return markdown_table(("opcode", "mnemonic", "fields after `location`", "does"), rows)


def _vector_table() -> str:
    rows = (
        (
            f"`{entry.mnemonic}`",
            str(entry.num_operands),
            entry.signature.name.lower().replace("_", " "),
            entry.cost.value,
            "yes" if entry.reduction is not None else "",
            entry.meaning,
        )
        for entry in VECTOR_INSTRUCTIONS
    )
    return markdown_table(("name", "operands", "signature", "cost", "reduces", "result"), rows)


_SECTIONS: Sections = {
    "program": _program_table,
    "element types": _element_type_table,
    "enums": _enum_table,
    "records": _record_table,
    "instructions": _instruction_table,
    "vector instructions": _vector_table,
}


# --- Files ----------------------------------------------------------------------------------------


def generated_files() -> dict[Path, str]:
    """Return the content that every derived file must have."""
    return {
        GENERATED / "instructions.h": instructions_header(),
        GENERATED / "limits.inc": limits_list(),
        GENERATED / "element_types.inc": element_types_list(),
        GENERATED / "vector_instructions.inc": vector_instructions_list(),
        PAGE: page(PAGE, _SECTIONS),
    }


if __name__ == "__main__":
    sys.exit(write_files(__doc__, generated_files))

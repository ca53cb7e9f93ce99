"""Strategies for program contents whose fields hold arbitrary values of their types."""

import dataclasses
import enum
import typing

from hypothesis import strategies as st

from torch_spyre.backend.program.instructions import INSTRUCTIONS, Instruction, ProgramContent

INTEGERS = st.integers(-3, 40) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.sampled_from(["addf", "", "%x"]) | st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=6
)


def values_of(kind):
    """Return a strategy for values of the type of a field."""
    if kind is str:
        return TEXTS
    if kind is bool:
        return st.booleans()
    if kind is int:
        return INTEGERS
    if kind is Instruction:
        return st.sampled_from(sorted(INSTRUCTIONS)).flatmap(
            lambda opcode: values_of(INSTRUCTIONS[opcode])
        )
    if typing.get_origin(kind) is tuple:
        return st.lists(values_of(typing.get_args(kind)[0]), max_size=3).map(tuple)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = dataclasses.fields(kind)
        return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields})
    assert issubclass(kind, enum.IntEnum), kind
    return st.sampled_from(list(kind))


def contents():
    return values_of(ProgramContent)

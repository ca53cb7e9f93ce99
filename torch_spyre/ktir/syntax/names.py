"""Exact names of SSA values: xDSL strips a suffix `_1`, but kernel arguments are passed by name."""

from xdsl.ir import SSAValue


def set_exact_name(value: SSAValue, name: str) -> None:
    """Set the name of a value as the text has it; numeric names are left to the printer."""
    if SSAValue.is_valid_name(name):
        value._name = name

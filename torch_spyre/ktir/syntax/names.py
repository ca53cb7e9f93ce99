"""Names of SSA values. xDSL cuts a `_1` from a name; a kernel's arguments are known by theirs."""

from xdsl.ir import SSAValue


def keep_exact_name(value: SSAValue, name: str) -> None:
    """Names a value exactly as the text does; numbers are left to the printer."""
    if SSAValue.is_valid_name(name):
        value._name = name

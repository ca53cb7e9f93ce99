"""Checks the operands of an OpSpec, which may come from an edited file."""

from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import find_record
from torch_spyre.errors import UnsupportedError

# A constant named `operand<position>` replaces the tensor operand at that position.
OPERAND = "operand"


def check_operands(spec: OpSpec) -> None:
    """Raise `UnsupportedError` if an op has no KTIR, or if its operands do not match its record.

    Multi-loop ops check their operands themselves.
    """
    if find_multi_loop_op(spec.op) is not None:
        return
    record = find_record(spec.op)
    if record is None or not record.ktir:
        raise UnsupportedError(f"{spec.op}, an op without KTIR")
    if record.arity is None:
        return
    constants = [name for name in spec.constants if name.startswith(OPERAND)]
    count = len(spec.operands) + len(constants)
    if count != record.arity:
        raise UnsupportedError(f"{spec.op} with {count} operands: it takes {record.arity}")
    unknown = set(constants) - {f"{OPERAND}{position}" for position in range(count)}
    if unknown:
        raise UnsupportedError(
            f"{spec.op} with the constants {', '.join(sorted(unknown))}: it has {count} operands"
        )

"""Selects the vector instruction that implements an op of `arith`, `math` or `spyreop`."""

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from torch_spyre.backend.lowering.registers import float32_bits
from torch_spyre.backend.program.vector_instructions import (
    REDUCTIONS,
    VECTOR_INSTRUCTIONS_BY_KTIR_OP,
)
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects import spyreop


@dataclass(frozen=True)
class VectorOp:
    """A use of a vector instruction: its name, operands, and constants (f32 bits) after these."""

    name: str
    operands: tuple[SSAValue, ...]
    result: SSAValue
    constants: tuple[int, ...] = ()

    @property
    def typed_operand(self) -> SSAValue:
        """Return the operand whose type selects the instruction: not the mask of a select."""
        return self.operands[1] if self.name == "select" else self.operands[0]


def vector_op(operation: Operation) -> VectorOp | None:
    """Return the vector instruction that implements an op; None if there is no single one."""
    if len(operation.results) != 1:
        return None
    operands, result = tuple(operation.operands), operation.results[0]
    match operation:
        case ktir_arith.CmpfOp():
            return VectorOp(f"cmpf_{operation.predicate_name}", operands, result)
        case ktir_arith.CmpiOp():
            return VectorOp(f"cmpi_{operation.predicate_name}", operands, result)
        case spyreop.SoftplusOp():
            beta, threshold = operation.beta.value.data, operation.threshold.value.data
            constants = float32_bits(beta), float32_bits(threshold)
            return VectorOp("softplus", operands, result, constants)
        case spyreop.LayerNormScaleOp():
            # The op has no epsilon: its producer has added it to the variance.
            return VectorOp("layernormscale", operands, result, (0,))
    entry = VECTOR_INSTRUCTIONS_BY_KTIR_OP.get(operation.name)
    return None if entry is None else VectorOp(entry.mnemonic, operands, result)


def reduction_op(operation: Operation) -> str | None:
    """Return the vector instruction that reduces as an `arith` op combines; None without one."""
    dialect, _, mnemonic = operation.name.partition(".")
    return mnemonic if dialect == "arith" and mnemonic in REDUCTIONS else None


def is_identity(reduction: str, bits: int) -> bool:
    """Return whether combining with this value (the bits of a register) changes nothing."""
    identity = REDUCTIONS[reduction].identity
    if identity is None:
        return False
    return bits == (float32_bits(identity) if isinstance(identity, float) else identity)

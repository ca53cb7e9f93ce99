"""The generated table of the KTIR ops that the back end compiles, in docs/custom-kernels.md."""

from collections.abc import Iterator

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from torch_spyre.backend.lowering.dispatch import HANDLERS
from torch_spyre.backend.program.vector_instructions import VECTOR_INSTRUCTIONS_BY_KTIR_OP
from torch_spyre.ktir.dialects import arith, spyreop
from torch_spyre.ktir.dialects.context import ktir_context

# Ops that several vector instructions implement, or that have constants for operands.
_OTHER_VECTOR_OPS = (arith.CmpfOp, arith.CmpiOp, spyreop.SoftplusOp, spyreop.LayerNormScaleOp)

# Structured ops whose bodies are no reductions that the card has.
_REFUSED = ("linalg.pooling_nchw_max", "linalg.quantized_matmul")


def supported_ops() -> list[str]:
    """Return the names of all ops that have a lowering, and of the terminators of regions."""
    return sorted({operation.name for operation in _supported()})


def _supported() -> Iterator[type[Operation]]:
    for operation in ktir_context().loaded_ops:
        is_vector_op = operation.name in VECTOR_INSTRUCTIONS_BY_KTIR_OP
        if operation in HANDLERS or operation in _OTHER_VECTOR_OPS or is_vector_op:
            yield operation
        elif issubclass(operation, LinalgStructuredOperation):
            if operation.name not in _REFUSED:
                yield operation
        elif _is_terminator(operation) or operation.name in ("func.func", "linalg.index"):
            yield operation


def _is_terminator(operation: type[Operation]) -> bool:
    """Return whether an op ends a region of KTIR; the body of a loop or of a function does."""
    dialects = ("func", "scf", "linalg", "tensor", "ktdp")
    hidden = "ktdp.region_terminator"
    return (
        operation.has_trait(IsTerminator)
        and operation.dialect_name() in dialects
        and operation.name not in (hidden, "scf.reduce", "scf.reduce.return", "scf.condition")
    )


def ops_table() -> str:
    """Return a Markdown table of the supported ops by dialect."""
    by_dialect: dict[str, list[str]] = {}
    for name in supported_ops():
        dialect, _, op = name.partition(".")
        by_dialect.setdefault(dialect, []).append(f"`{op}`")
    rows = [f"| `{dialect}` | {' '.join(ops)} |" for dialect, ops in sorted(by_dialect.items())]
    return "\n".join(["| dialect | ops |", "|---|---|", *rows])

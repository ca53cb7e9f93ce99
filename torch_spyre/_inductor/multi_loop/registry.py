"""Looks up multi-loop ops by the names of their loops and specs."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
    from torch_spyre._inductor.op_spec import OpSpec

# Modules that register an op when they are imported. Imported on the first lookup, since they
# import the passes' own data structures.
BUILTIN_MODULES = (
    "torch_spyre._inductor.multi_loop.attention.op",
    "torch_spyre._inductor.multi_loop.indexed.op",
    "torch_spyre._inductor.multi_loop.scan.op",
    "torch_spyre._inductor.multi_loop.sort.op",
)

_OPS: dict[str, "MultiLoopOp"] = {}


def register(op: "MultiLoopOp") -> None:
    """Register an op under its names."""
    for name in op.names:
        if name in _OPS:
            raise ValueError(f"multi-loop op {name} is registered twice")
        _OPS[name] = op


def find_multi_loop_op(name: str) -> "MultiLoopOp | None":
    """Return the op that has loops or specs of this name; None if there is no such op."""
    _import_builtin_ops()
    return _OPS.get(name)


def multi_loop_op(name: str) -> "MultiLoopOp":
    """Return the op that has loops or specs of this name."""
    op = find_multi_loop_op(name)
    if op is None:
        raise KeyError(f"no multi-loop op is registered under the name {name}")
    return op


def multi_loop_op_of(specs: Sequence["OpSpec"]) -> "MultiLoopOp | None":
    """Return the op that the specs of a kernel belong to; None for a kernel of other ops.

    Fusion merges nothing else into the kernel of a multi-loop op, so the first spec decides.
    """
    return find_multi_loop_op(specs[0].op)


def is_multi_loop_overload(overload: object) -> bool:
    """Return whether an op of the graph is lowered to the loops of a multi-loop op."""
    _import_builtin_ops()
    return any(op.overload is overload for op in _OPS.values())


@cache
def _import_builtin_ops() -> None:
    for module in BUILTIN_MODULES:
        import_module(module)

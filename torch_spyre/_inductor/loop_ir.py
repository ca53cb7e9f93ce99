"""The loop IR: Inductor's loops as immutable records.

A `LoopOp` is one buffer of Inductor. A graph of steps computes every point of an iteration space
from loaded elements; the result is stored, or reduced along some symbols and then stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch
from sympy import Symbol

from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.op_table import MATMUL_OPS
from torch_spyre._inductor.origin import Origin


@dataclass(frozen=True)
class Constant:
    """A value that is the same at every point."""

    value: float | int | bool
    dtype: torch.dtype


@dataclass(frozen=True)
class Load:
    """The element of a buffer at a host offset.

    Symbols of `indirect` are values of index tensors. The load of an index tensor states how many
    `choices` there are: the size of the indexed dim.
    """

    buffer: str
    index: sympy.Expr
    dtype: torch.dtype
    indirect: tuple[tuple[Symbol, "Load"], ...] = ()
    choices: int | None = None
    # The op of the user's program that uses the index tensors.
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Coordinate:
    """An integer expression of the point's coordinates."""

    expression: sympy.Expr
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Step:
    """An operation of the hardware on other nodes. Equal only to itself: see `Interner`."""

    op: str
    inputs: tuple["Node", ...]
    dtype: torch.dtype
    origin: Origin | None = None


Node = Constant | Load | Coordinate | Step


@dataclass(frozen=True)
class Reduction:
    """The operation along the reduced symbols: a reduction of one value, or a matmul of two."""

    op: str
    inputs: tuple[Node, ...]
    constants: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class LoopOp:
    """The computation of one buffer."""

    # The buffer of Inductor, and the buffer whose memory it writes.
    name: str
    target: str
    dtype: torch.dtype
    sizes: Mapping[Symbol, int]
    reduced: tuple[Symbol, ...]
    value: Node | Reduction
    write: sympy.Expr
    # Whether some elements of the target are not written.
    is_partial: bool = False
    # Symbols of `write` that are values of index tensors, for scatter.
    scattered: tuple[tuple[Symbol, "Load"], ...] = ()
    # The op of the user's program that computes the result.
    origin: Origin | None = field(default=None, compare=False)

    @property
    def is_matmul(self) -> bool:
        return isinstance(self.value, Reduction) and self.value.op in MATMUL_OPS

    @property
    def is_multi_loop(self) -> bool:
        """Return whether this is a loop of a multi-loop op."""
        return isinstance(self.value, Reduction) and find_multi_loop_op(self.value.op) is not None

    @property
    def reads(self) -> tuple[Load, ...]:
        """Return the loads by operand: a matmul of a tensor with itself has two of them."""
        if isinstance(self.value, Reduction) and (self.is_matmul or self.is_multi_loop):
            return tuple(node for node in self.value.inputs if isinstance(node, Load))
        return self.loads

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every load once, in the order of their first use."""
        return tuple(node for node in traverse(self.roots) if isinstance(node, Load))

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes that are reduced or stored."""
        return self.value.inputs if isinstance(self.value, Reduction) else (self.value,)

    @property
    def indices(self) -> tuple[Load, ...]:
        """The loads of index tensors, whose values select the elements to read or write."""
        reads = [index for load in self.loads for _, index in load.indirect]
        return tuple(dict.fromkeys((*reads, *(index for _, index in self.scattered))))


class Interner:
    """Returns the same object for equal steps, so that common subexpressions are computed once."""

    def __init__(self) -> None:
        self._steps: dict[object, Step] = {}

    def step(
        self,
        op: str,
        inputs: tuple[Node, ...],
        dtype: torch.dtype,
        origin: Origin | None = None,
    ) -> Step:
        """Return the step with these operands, which is created on the first call.

        Equal steps of several origins are one, with the first origin.
        """
        key = (op, tuple(map(_identity, inputs)), dtype)
        if key not in self._steps:
            self._steps[key] = Step(op, inputs, dtype, origin)
        return self._steps[key]


def _identity(node: Node) -> object:
    # 0.0 and -0.0, 1 and True are equal in Python, but different constants.
    return (repr(node.value), node.dtype) if isinstance(node, Constant) else node


def traverse(roots: Sequence[Node]) -> list[Node]:
    """Return every node once, in postorder: inputs before their users."""
    visited: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node in visited:
            return
        if isinstance(node, Step):
            for operand in node.inputs:
                visit(operand)
        visited[node] = None

    for root in roots:
        visit(root)
    return list(visited)


def format_loop_op(op: LoopOp, describe: Callable[[Origin], str] = str) -> str:
    """Return the text of the op, one line for each value.

    The origin of the op follows as a comment, and that of each step or indexed load whose origin is
    another.
    """
    names: dict[Node, str] = {}
    lines = [f"{op.name}: {_format_space(op)}{_comment(op.origin, describe)}"]
    for node in traverse(op.roots):
        names[node] = f"%{len(names)}"
        origin = node.origin if isinstance(node, Step | Load) else None
        is_other = origin is not None and not origin.is_same_call(op.origin)
        comment = _comment(origin if is_other else None, describe)
        lines.append(f"  {names[node]} = {_format_node(node, names)}{comment}")
    result = names[op.roots[0]]
    if isinstance(op.value, Reduction):
        reduced = ", ".join(symbol.name for symbol in op.reduced)
        operands = ", ".join(names[root] for root in op.roots)
        constants = "".join(f" {name}={value}" for name, value in op.value.constants)
        result = f"{op.value.op}[{reduced}]({operands}){constants}"
    suffix = " (partial)" if op.is_partial else ""
    lines.append(f"  {op.target}[{op.write}] = {result}{suffix}{_format_lookups(op.scattered)}")
    return "\n".join(lines)


def _comment(origin: Origin | None, describe: Callable[[Origin], str]) -> str:
    return f"  # {describe(origin)}" if origin is not None else ""


def _format_space(op: LoopOp) -> str:
    return " ".join(f"{symbol.name}<{size}" for symbol, size in op.sizes.items()) or "one point"


def _format_node(node: Node, names: Mapping[Node, str]) -> str:
    kind = str(node.dtype).removeprefix("torch.")
    match node:
        case Constant(value=value):
            return f"{value} : {kind}"
        case Load(buffer=buffer, index=index, indirect=indirect):
            return f"{buffer}[{index}] : {kind}{_format_lookups(indirect)}"
        case Coordinate(expression=expression):
            return f"index {expression} : {kind}"
        case Step(op=op, inputs=inputs):
            operands = ", ".join(names[operand] for operand in inputs)
            return f"{op} {operands} : {kind}"


def _format_lookups(indirect: Sequence[tuple[Symbol, Load]]) -> str:
    return "".join(
        f" with {symbol.name} = {source.buffer}[{source.index}]" for symbol, source in indirect
    )

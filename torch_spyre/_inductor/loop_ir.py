"""Loops as the passes see them: what Inductor lowered, read once into records of our own.

A `LoopOp` is one buffer of Inductor's: every point of a space is computed by a small graph of steps
from elements that are loaded, and stored, or reduced along some symbols first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch
from sympy import Symbol

from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.op_table import MATMUL_OPS


@dataclass(frozen=True)
class Constant:
    """A number that is the same everywhere."""

    value: float | int | bool
    dtype: torch.dtype


@dataclass(frozen=True)
class Load:
    """The element of a buffer at a host offset. Symbols of `indirect` are values of loads.

    A load whose value is an index says how many `choices` there are.
    """

    buffer: str
    index: sympy.Expr
    dtype: torch.dtype
    indirect: tuple[tuple[Symbol, "Load"], ...] = ()
    choices: int | None = None


@dataclass(frozen=True)
class Coordinate:
    """A number made of the point's coordinates."""

    expression: sympy.Expr
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Step:
    """An operation of the hardware on values before it. Equal only to itself: see `Interner`."""

    op: str
    inputs: tuple["Node", ...]
    dtype: torch.dtype
    constants: tuple[tuple[str, float], ...] = ()


Node = Constant | Load | Coordinate | Step


@dataclass(frozen=True)
class Reduction:
    """What happens along the reduced symbols: a reduction, or a product of two values."""

    op: str
    inputs: tuple[Node, ...]
    constants: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class LoopOp:
    """One buffer's computation."""

    # The buffer of Inductor's that this is, and the one whose memory it writes.
    name: str
    target: str
    dtype: torch.dtype
    sizes: Mapping[Symbol, int]
    reduced: tuple[Symbol, ...]
    value: Node | Reduction
    write: sympy.Expr
    # Does it leave some of the target's elements as they were?
    partial: bool = False
    # Symbols of `write` that are values of loads: what is scattered.
    scattered: tuple[tuple[Symbol, "Load"], ...] = ()
    # For messages: the ops of the user's graph that it comes from.
    origins: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_matmul(self) -> bool:
        return isinstance(self.value, Reduction) and self.value.op in MATMUL_OPS

    @property
    def is_multi_loop(self) -> bool:
        """Whether this is a loop of a multi-loop op, which has a program of its own."""
        return isinstance(self.value, Reduction) and find_multi_loop_op(self.value.op) is not None

    @property
    def reads(self) -> tuple[Load, ...]:
        """What is read, in places of its own: a product has two factors, be they one tensor."""
        if isinstance(self.value, Reduction) and (self.is_matmul or self.is_multi_loop):
            return tuple(each for each in self.value.inputs if isinstance(each, Load))
        return self.loads

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every load once, in the order of their first use."""
        found: dict[Load, None] = {}
        roots = self.value.inputs if isinstance(self.value, Reduction) else (self.value,)
        for node in walk(roots):
            if isinstance(node, Load):
                found[node] = None
        return tuple(found)

    @property
    def indices(self) -> tuple[Load, ...]:
        """The loads whose values say where others read, or where the op writes."""
        reads = [index for load in self.loads for _, index in load.indirect]
        return tuple(dict.fromkeys((*reads, *(index for _, index in self.scattered))))


class Interner:
    """Makes every step once, so that equal work is one object and graphs stay graphs."""

    def __init__(self) -> None:
        self._steps: dict[object, Step] = {}

    def step(
        self,
        op: str,
        inputs: tuple[Node, ...],
        dtype: torch.dtype,
        constants: tuple[tuple[str, float], ...] = (),
    ) -> Step:
        # 0.0 and -0.0, 1 and True are equal and are not the same constant.
        key = (op, tuple(map(_identity, inputs)), dtype, repr(constants))
        if key not in self._steps:
            self._steps[key] = Step(op, inputs, dtype, constants)
        return self._steps[key]


def _identity(node: Node) -> object:
    return (repr(node.value), node.dtype) if isinstance(node, Constant) else node


def walk(roots: Sequence[Node]) -> list[Node]:
    """Every node once, inputs before what uses them."""
    seen: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node in seen:
            return
        if isinstance(node, Step):
            for each in node.inputs:
                visit(each)
        seen[node] = None

    for root in roots:
        visit(root)
    return list(seen)


def text_of(op: LoopOp) -> str:
    """The op as people read it: one line for each value."""
    names: dict[Node, str] = {}
    lines = [f"{op.name}: {_space(op)}"]
    roots = op.value.inputs if isinstance(op.value, Reduction) else (op.value,)
    for node in walk(roots):
        names[node] = f"%{len(names)}"
        lines.append(f"  {names[node]} = {_node_text(node, names)}")
    result = names[roots[0]]
    if isinstance(op.value, Reduction):
        reduced = ", ".join(symbol.name for symbol in op.reduced)
        operands = ", ".join(names[root] for root in roots)
        constants = "".join(f" {name}={value}" for name, value in op.value.constants)
        result = f"{op.value.op}[{reduced}]({operands}){constants}"
    partial = " (partial)" if op.partial else ""
    lines.append(f"  {op.target}[{op.write}] = {result}{partial}{_where(op.scattered)}")
    return "\n".join(lines)


def _space(op: LoopOp) -> str:
    return " ".join(f"{symbol.name}<{size}" for symbol, size in op.sizes.items()) or "one point"


def _node_text(node: Node, names: Mapping[Node, str]) -> str:
    kind = str(node.dtype).removeprefix("torch.")
    match node:
        case Constant(value=value):
            return f"{value} : {kind}"
        case Load(buffer=buffer, index=index, indirect=indirect):
            return f"{buffer}[{index}] : {kind}{_where(indirect)}"
        case Coordinate(expression=expression):
            return f"index {expression} : {kind}"
        case Step(op=op, inputs=inputs, constants=constants):
            operands = ", ".join(names[each] for each in inputs)
            given = "".join(f" {name}={value}" for name, value in constants)
            return f"{op} {operands}{given} : {kind}"


def _where(indirect: Sequence[tuple[Symbol, Load]]) -> str:
    return "".join(
        f" with {symbol.name} = {source.buffer}[{source.index}]" for symbol, source in indirect
    )

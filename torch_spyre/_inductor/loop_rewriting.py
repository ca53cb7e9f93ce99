"""Rewrites loop ops: replaces loads and coordinates, and renames symbols."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.loop_ir import (
    Coordinate,
    Interner,
    Load,
    LoopOp,
    Node,
    Reduction,
    Step,
)


def with_leaves(op: LoopOp, replacements: Mapping[Node, Node]) -> LoopOp:
    """Return the op with some of its loads and coordinates replaced."""
    if not replacements:
        return op
    value = op.value
    if isinstance(value, Reduction):
        inputs = tuple(_substitute(node, replacements, {}) for node in value.inputs)
        return replace(op, value=replace(value, inputs=inputs))
    return replace(op, value=_substitute(value, replacements, {}))


def _substitute(node: Node, replacements: Mapping[Node, Node], rewritten: dict[Node, Node]) -> Node:
    if not isinstance(node, Step):
        return replacements.get(node, node)
    if node not in rewritten:
        inputs = tuple(_substitute(operand, replacements, rewritten) for operand in node.inputs)
        rewritten[node] = replace(node, inputs=inputs)
    return rewritten[node]


def with_symbols(op: LoopOp, renames: Mapping[Symbol, Symbol], interner: Interner) -> LoopOp:
    """Return the op with its symbols renamed, and with steps of the interner."""
    rewriter = _SymbolRewriter(renames, interner)
    value = op.value
    rewritten: Node | Reduction
    if isinstance(value, Reduction):
        rewritten = replace(value, inputs=tuple(map(rewriter.node, value.inputs)))
    else:
        rewritten = rewriter.node(value)
    return replace(
        op,
        sizes={renames.get(symbol, symbol): size for symbol, size in op.sizes.items()},
        reduced=tuple(renames.get(symbol, symbol) for symbol in op.reduced),
        value=rewritten,
        write=rewriter.expression(op.write),
        scattered=rewriter.indirect(op.scattered),
    )


class _SymbolRewriter:
    def __init__(self, renames: Mapping[Symbol, Symbol], interner: Interner) -> None:
        self.renames, self.interner = renames, interner
        self.rewritten: dict[Node, Node] = {}

    def expression(self, value: sympy.Expr) -> sympy.Expr:
        return sympy.sympify(value).xreplace(self.renames) if self.renames else value

    def indirect(self, indices: Sequence[tuple[Symbol, Load]]) -> tuple[tuple[Symbol, Load], ...]:
        return tuple(
            (symbol, replace(load, index=self.expression(load.index))) for symbol, load in indices
        )

    def node(self, node: Node) -> Node:
        if node not in self.rewritten:
            self.rewritten[node] = self._rewrite(node)
        return self.rewritten[node]

    def _rewrite(self, node: Node) -> Node:
        match node:
            case Load():
                index, indirect = self.expression(node.index), self.indirect(node.indirect)
                return replace(node, index=index, indirect=indirect)
            case Coordinate():
                return replace(node, expression=self.expression(node.expression))
            case Step():
                inputs = tuple(map(self.node, node.inputs))
                return self.interner.step(node.op, inputs, node.dtype, node.origin)
        return node

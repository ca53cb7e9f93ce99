"""Traces the loops that Inductor lowered: runs their inner functions and records each op."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import sympy
import torch
from sympy import Symbol
from torch._inductor import ir
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from torch_spyre._inductor.layouts.terms import modulo
from torch_spyre._inductor.loop_ir import (
    Constant,
    Coordinate,
    Interner,
    Load,
    LoopOp,
    Node,
    Reduction,
    Step,
)
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.op_table import (
    IDENTITY,
    LOOP_OPS,
    REDUCTION_TYPES,
    WHERE,
    Kind,
    ResultType,
    conversion_op,
)
from torch_spyre._inductor.origin import Origin
from torch_spyre._inductor.provenance import current_origin, within
from torch_spyre.dtypes import FLOAT_DTYPES, INTEGER_DTYPES, SIGNED_DTYPES
from torch_spyre.errors import UnsupportedError


class LoopTracer(DefaultHandler):
    """A handler of Inductor's loop ops that turns every call into a node."""

    def __init__(self) -> None:
        self.indirect: dict[Symbol, Load] = {}
        self._interner = Interner()

    def step(self, op: str, inputs: tuple[Node, ...], dtype: torch.dtype) -> Step:
        return self._interner.step(op, inputs, dtype, current_origin())

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        record = LOOP_OPS.get(name)
        if record is None:
            raise UnsupportedError(f"loop op {name}")
        inputs = self._promoted(args)
        if inputs[0].dtype is torch.bool and record.bool_variant is not None:
            return self.step(record.bool_variant, inputs, torch.bool)
        dtype = torch.bool if record.result is ResultType.BOOL else inputs[0].dtype
        result = self.step(record.name, inputs, dtype)
        return self._wrapped_to_width(result) if record.can_overflow else result

    def _wrapped_to_width(self, node: Node) -> Node:
        """Reduce a uint8 result modulo 256: the card computes it in 32 bits."""
        if node.dtype is not torch.uint8:
            return node
        return self._default("bitwise_and", (node, Constant(255, node.dtype)), {})

    def load(self, name: str, index: sympy.Expr) -> Node:
        name, index = _in_owner(name, index)
        indirect = self.index_loads(name, index)
        origin = current_origin() if indirect else None
        dtype = V.graph.get_dtype(name)
        return Load(name, sympy.expand(index), dtype, indirect, origin=origin)

    def index_loads(self, name: str, index: sympy.Expr) -> tuple[tuple[Symbol, Load], ...]:
        """Return the loads of index tensors that an access to a buffer depends on."""
        loads = tuple((symbol, load) for symbol, load in self.indirect.items() if index.has(symbol))
        for symbol, load in loads:
            self._check_indexed_dim(name, index, symbol, load.choices or 0)
        return loads

    def _check_indexed_dim(
        self, name: str, index: sympy.Expr, symbol: Symbol, choices: int
    ) -> None:
        """Raise UnsupportedError unless the index selects along one dim of the buffer."""
        layout = V.graph.get_buffer(name).get_layout()
        factor = sympy.expand(index).coeff(symbol)
        dims = zip(map(concrete, layout.stride), map(concrete, layout.size), strict=True)
        if not any(stride == factor and size >= choices for stride, size in dims):
            raise UnsupportedError(f"an index into several dims of {name} at once")

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Node:
        is_integer = not (dtype.is_floating_point or dtype.is_complex)
        return Constant(_converted_scalar(value, dtype) if is_integer else value, dtype)

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Node:
        expr = _without_inductor_functions(sympy.sympify(expr))
        if expr.is_Integer:
            return Constant(_scalar(int(expr), dtype), dtype)
        if dtype is torch.uint8:
            return self.converted(Coordinate(expr, torch.int32), dtype)
        return Coordinate(expr, dtype)

    def to_dtype(
        self,
        x: Node,
        dtype: torch.dtype,
        src_dtype: torch.dtype | None = None,
        use_compute_types: bool = True,
    ) -> Node:
        return self.converted(x, dtype)

    def where(self, condition: Node, input: Any, other: Any) -> Node:
        if_true, if_false = self._promoted((input, other))
        operands = (self.converted(condition, torch.bool), if_true, if_false)
        return self.step(WHERE, operands, if_true.dtype)

    def square(self, x: Node) -> Node:
        return self._default("mul", (x, x), {})

    def identity(self, x: Node) -> Node:
        return x

    def relu(self, x: Node) -> Node:
        if x.dtype not in FLOAT_DTYPES:
            return self._default("maximum", (x, Constant(0, x.dtype)), {})
        return self._default("relu", (x,), {})

    def sign(self, x: Node) -> Node:
        zero = Constant(0, x.dtype)
        above = self.converted(self._default("gt", (x, zero), {}), x.dtype)
        below = self.converted(self._default("lt", (x, zero), {}), x.dtype)
        return self._default("sub", (above, below), {})

    def masked(self, mask: Node, body: Callable[[], Node], other: float) -> Node:
        raise UnsupportedError("a masked load")

    def indirect_indexing(
        self, index: Node, size: sympy.Expr, check: bool = True, wrap_neg: bool = True
    ) -> Symbol:
        while isinstance(index, Step) and index.op == IDENTITY:
            (index,) = index.inputs
        if not isinstance(index, Load) or index.indirect:
            raise UnsupportedError("an index that is not loaded from memory")
        index = replace(index, choices=concrete(size))
        for symbol, known in self.indirect.items():
            if known == index:
                return symbol
        symbol = Symbol(f"indirect{len(self.indirect)}", integer=True)
        self.indirect[symbol] = index
        return symbol

    def converted(self, node: Node, dtype: torch.dtype) -> Node:
        if node.dtype == dtype:
            return node
        if isinstance(node, Constant):
            return Constant(_converted_scalar(node.value, dtype), dtype)
        if isinstance(node, Coordinate) and dtype in SIGNED_DTYPES:
            return Coordinate(node.expression, dtype)
        op = conversion_op(node.dtype, dtype)
        inputs: tuple[Node, ...] = (node,)
        if dtype is torch.bool:
            inputs = (node, Constant(0, node.dtype))
        result = self.step(op, inputs, dtype)
        return result if node.dtype is torch.bool else self._wrapped_to_width(result)

    def _promoted(self, args: Sequence[Any]) -> tuple[Node, ...]:
        """Return the operands in one dtype. Python scalars do not take part in promotion."""
        nodes = [arg if isinstance(arg, Node) else None for arg in args]
        typed = [node for node in nodes if node is not None and not isinstance(node, Constant)]
        constants = [node for node in nodes if isinstance(node, Constant)]
        dtype = None
        for node in typed or constants:
            dtype = node.dtype if dtype is None else torch.promote_types(dtype, node.dtype)
        assert dtype is not None, args
        return tuple(
            self.converted(node, dtype)
            if node is not None
            else Constant(_scalar(arg, dtype), dtype)
            for node, arg in zip(nodes, args, strict=True)
        )


def _without_inductor_functions(expr: sympy.Expr) -> sympy.Expr:
    """Return the expression with floor and Mod in place of Inductor's functions."""
    expr = expr.replace(FloorDiv, lambda value, divisor: sympy.floor(value / divisor))
    return expr.replace(
        ModularIndexing,
        lambda value, divisor, modulus: modulo(sympy.floor(value / divisor), modulus),
    )


def _scalar(value: float | int | bool, dtype: torch.dtype) -> float | int | bool:
    """Return a scalar converted to the dtype; integers wrap around."""
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_floating_point or not isfinite(value):
        return float(value)
    limits = torch.iinfo(dtype)
    minimum, num_values = int(limits.min), 1 << int(limits.bits)
    return (int(value) - minimum) % num_values + minimum


def _converted_scalar(value: float | int | bool, dtype: torch.dtype) -> float | int | bool:
    """Return a scalar converted as the card converts elements: out-of-range floats as the CPU."""
    if not isinstance(value, float) or dtype not in INTEGER_DTYPES:
        return _scalar(value, dtype)
    # The card stores int64 in 32 bits.
    narrow = torch.int32 if dtype is torch.int64 else dtype
    return int(torch.tensor(value, dtype=torch.float32).to(narrow))


def trace_loop(buffer: ir.ComputedBuffer) -> LoopOp:
    """Return the loop op of one buffer; raise UnsupportedError for loops of another kind."""
    data = buffer.data
    if not isinstance(data, ir.Pointwise | ir.Reduction):
        raise UnsupportedError(f"Inductor's loops of type {type(data).__name__}")
    sizes: dict[Symbol, int] = {}

    def symbols(ranges: Sequence[Any], letter: str) -> list[sympy.Expr]:
        loop_symbols: list[sympy.Expr] = []
        for position, size in enumerate(ranges):
            extent = concrete(size)
            symbol = Symbol(f"{letter}{position}", integer=True)
            if extent != 1:
                sizes[symbol] = extent
            loop_symbols.append(symbol if extent != 1 else sympy.S.Zero)
        return loop_symbols

    handler = LoopTracer()
    points = symbols(data.ranges, "c")
    reduced: list[sympy.Expr] = []
    value: Node | Reduction
    store_indices: Sequence[sympy.Expr] = points
    with V.set_ops_handler(handler), within(_node_of(buffer)):
        if isinstance(data, ir.Reduction):
            reduced = symbols(data.reduction_ranges, "r")
            value = _reduction(handler, data, data.inner_fn(points, reduced))
        else:
            value = handler.converted(_node(data.inner_fn(points)), buffer.get_dtype())
        if isinstance(data, ir.Scatter):
            if data.scatter_mode is not None:
                raise UnsupportedError(f"a scatter with mode {data.scatter_mode}")
            store_indices = data.output_indexer(points)
        origin = current_origin()
    target, index, is_partial = _destination(buffer, store_indices)
    scattered = handler.index_loads(target, index)
    return LoopOp(
        buffer.get_name(),
        target,
        buffer.get_dtype(),
        sizes,
        tuple(symbol for symbol in reduced if symbol != 0),
        value,
        sympy.expand(index),
        is_partial or bool(scattered),
        scattered,
        origin,
    )


def origin_of(buffer: ir.ComputedBuffer) -> Origin | None:
    """Return the op of the user's program that a buffer computes."""
    with within(_node_of(buffer)):
        return current_origin()


def _node_of(buffer: ir.ComputedBuffer) -> torch.fx.Node | None:
    """Return the node of the graph that a buffer computes, as far as Inductor knows it."""
    node: torch.fx.Node | None = buffer.data.origin_node or buffer.origin_node
    # A node comes before those whose values it uses.
    nodes = [origin for origin in buffer.origins if origin.op == "call_function"]
    return nodes[0] if node is None and nodes else node


def concrete(size: Any) -> int:
    """Return a size as an integer; a symbolic one is guarded on its hint."""
    return size if isinstance(size, int) else int(V.graph.sizevars.guarding_hint_or_throw(size))


def _node(value: Any) -> Node:
    """Return the node of a value that Inductor may have wrapped for operator overloading."""
    node: Node = value if isinstance(value, Node) else value.value
    return node


def _reduction(handler: LoopTracer, data: ir.Reduction, inputs: Any) -> Reduction:
    nodes = tuple(map(_node, inputs)) if isinstance(inputs, tuple) else (_node(inputs),)
    kind: str = data.reduction_type
    multi_loop = find_multi_loop_op(kind)
    if multi_loop is not None:
        return _multi_loop(multi_loop, kind, nodes)
    record = REDUCTION_TYPES.get(kind)
    if record is None:
        raise UnsupportedError(f"reductions of type {kind}")
    if record.kind is Kind.MATMUL:
        return Reduction(record.name, nodes)
    (node,) = nodes
    if kind == "any":
        node = handler.converted(node, torch.bool)
    if node.dtype is torch.bool:
        # Bools are stored as 16-bit floats, on which reductions are defined.
        node = handler.converted(node, torch.float16)
    if record.reduction is not None and record.reduction.scale is not None:
        count = _count(data.reduction_ranges)
        return Reduction(record.name, (node,), ((record.reduction.scale, 1.0 / count),))
    return Reduction(record.name, (node,))


def _multi_loop(op: MultiLoopOp, kind: str, nodes: tuple[Node, ...]) -> Reduction:
    """Return the loop of a multi-loop op, whose inner function returns its constants last."""
    num_tensors = len(nodes) - len(op.constants)
    tensors, scalars = nodes[:num_tensors], nodes[num_tensors:]
    values = [node.value for node in scalars if isinstance(node, Constant)]
    return Reduction(kind, tensors, tuple(zip(op.constants, values, strict=True)))


def _in_owner(name: str, index: sympy.Expr) -> tuple[str, sympy.Expr]:
    """Return the buffer that owns an element and its index: inputs of `cat` alias its result."""
    buffer = V.graph.try_get_buffer(name)
    layout = buffer.get_layout() if isinstance(buffer, ir.Buffer) else None
    if not isinstance(layout, ir.NonOwningLayout):
        return name, index
    view = layout.view
    return _in_owner(view.get_name(), index + view.get_layout().offset)


def _destination(
    buffer: ir.ComputedBuffer, points: Sequence[sympy.Expr]
) -> tuple[str, sympy.Expr, bool]:
    """Return the buffer that is written, the index, and whether some elements stay unwritten."""
    layout = buffer.get_layout()
    if isinstance(layout, ir.MutationLayoutSHOULDREMOVE):
        is_partial = _count(layout.target.get_size()) != _count(layout.get_buffer().get_size())
        index = layout.target.make_indexer()(points)
        return layout.get_buffer().get_name(), index, is_partial
    if isinstance(layout, ir.NonOwningLayout):
        target, index = _in_owner(layout.view.get_name(), layout.view.make_indexer()(points))
        return target, index, True
    return buffer.get_name(), layout.make_indexer()(points), False


def _count(sizes: Sequence[Any]) -> int:
    total = 1
    for size in sizes:
        total *= concrete(size)
    return total

"""The op that gives each point a number made of its coordinates."""

from collections.abc import Callable, Mapping

import sympy
from sympy import Symbol
from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from torch_spyre._inductor.op_spec import OpSpec, sympify
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.indices import IndexArithmetic
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import I32, element_type
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects import arith as ktir_arith


def emit_coordinate(emitter: Emitter, spec: OpSpec, frame: Frame) -> Value:
    """`op_info["expression"]` of the symbols, as a tensor."""
    expression = sympify(spec.op_info["expression"])
    return emit_index(emitter, expression, element_type(spec.output.device_dtype), frame)


def emit_index(emitter: Emitter, expression: sympy.Expr, result: Attribute, frame: Frame) -> Value:
    if expression.is_Integer:
        return Value(emitter.scalar(int(expression), result), ())
    axes = frame.axes_of(frozenset(expression.free_symbols))
    shape = frame.shape(axes)
    target = emitter.empty(I32, shape)
    # Constants and origins stand before the op: its region computes with them.
    block = Block(arg_types=[I32])
    operations: list[Operation] = []

    def add(operation: Operation) -> SSAValue:
        operations.append(operation)
        return operation.results[0]

    places: dict[Symbol, SSAValue] = {}
    for position, axis in enumerate(axes):
        origin = emitter.indices.value(frame.origins[axis.symbol])
        if axis.part == "stick":
            sticks = emitter.indices.constant(frame.stick)
            part = add(arith.MuliOp(add(IndexOp(position)), sticks))
        else:
            part = add(IndexOp(position))
        before = places.get(axis.symbol, origin)
        places[axis.symbol] = add(arith.AddiOp(part, before))
    total = _emit(expression, places, add, emitter.indices)
    number = add(ktir_arith.IndexCastOp(total, I32))
    block.add_ops([*operations, YieldOp(number)])
    raw = emitter.add(
        GenericOp(
            [],
            [target],
            Region(block),
            [AffineMapAttr(AffineMap.identity(len(shape)))],
            [IteratorTypeAttr.parallel()] * len(shape),
            [target.type],
        )
    )
    return Value(converted(emitter, raw, result), axes)


def _emit(
    expression: sympy.Expr,
    places: Mapping[Symbol, SSAValue],
    add: Callable[[Operation], SSAValue],
    indices: IndexArithmetic,
) -> SSAValue:
    if expression.is_Integer:
        return indices.constant(int(expression))
    if expression.is_Symbol:
        return places[expression]
    if isinstance(expression, sympy.Add):
        first, *others = (_emit(each, places, add, indices) for each in expression.args)
        for each in others:
            first = add(arith.AddiOp(first, each))
        return first
    if isinstance(expression, sympy.Mul):
        first, *others = (_emit(each, places, add, indices) for each in expression.args)
        for each in others:
            first = add(arith.MuliOp(first, each))
        return first
    if isinstance(expression, sympy.Mod):
        value, modulus = (_emit(each, places, add, indices) for each in expression.args)
        quotient = add(arith.FloorDivSIOp(value, modulus))
        return add(arith.SubiOp(value, add(arith.MuliOp(quotient, modulus))))
    if isinstance(expression, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expression.args[0]))
        value = _emit(sympy.expand(numerator), places, add, indices)
        return add(arith.FloorDivSIOp(value, indices.constant(int(denominator))))
    raise UnsupportedError(f"an index like {expression}")

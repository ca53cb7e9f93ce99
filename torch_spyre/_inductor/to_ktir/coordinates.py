"""Emits tensors whose elements are functions of their coordinates."""

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
    """Emit the value of `op_info["expression"]` at each point of the tile."""
    expression = sympify(spec.op_info["expression"])
    return emit_index(emitter, expression, element_type(spec.output.device_dtype), frame)


def emit_index(emitter: Emitter, expression: sympy.Expr, result: Attribute, frame: Frame) -> Value:
    """Emit the value of an expression of symbols at each point of the tile."""
    if expression.is_Integer:
        return Value(emitter.scalar(int(expression), result), ())
    axes = frame.axes_of(frozenset(expression.free_symbols))
    shape = frame.shape(axes)
    target = emitter.empty(I32, shape)
    # Constants and origins are emitted before the op; its region captures them.
    block = Block(arg_types=[I32])
    operations: list[Operation] = []

    def add(operation: Operation) -> SSAValue:
        operations.append(operation)
        return operation.results[0]

    values: dict[Symbol, SSAValue] = {}
    for dim, axis in enumerate(axes):
        origin = emitter.indices.value(frame.origins[axis.symbol])
        if axis.part == "stick":
            per_stick = emitter.indices.constant(frame.stick)
            offset = add(arith.MuliOp(add(IndexOp(dim)), per_stick))
        else:
            offset = add(IndexOp(dim))
        base = values.get(axis.symbol, origin)
        values[axis.symbol] = add(arith.AddiOp(offset, base))
    index = _emit(expression, values, add, emitter.indices)
    integer = add(ktir_arith.IndexCastOp(index, I32))
    block.add_ops([*operations, YieldOp(integer)])
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
    values: Mapping[Symbol, SSAValue],
    add: Callable[[Operation], SSAValue],
    indices: IndexArithmetic,
) -> SSAValue:
    """Emit an expression of symbols, whose SSA values are in `values`."""
    if expression.is_Integer:
        return indices.constant(int(expression))
    if expression.is_Symbol:
        return values[expression]
    if isinstance(expression, sympy.Add | sympy.Mul):
        kind = arith.AddiOp if isinstance(expression, sympy.Add) else arith.MuliOp
        result, *operands = (_emit(arg, values, add, indices) for arg in expression.args)
        for operand in operands:
            result = add(kind(result, operand))
        return result
    if isinstance(expression, sympy.Mod):
        value, modulus = (_emit(arg, values, add, indices) for arg in expression.args)
        quotient = add(arith.FloorDivSIOp(value, modulus))
        return add(arith.SubiOp(value, add(arith.MuliOp(quotient, modulus))))
    if isinstance(expression, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expression.args[0]))
        value = _emit(sympy.expand(numerator), values, add, indices)
        return add(arith.FloorDivSIOp(value, indices.constant(int(denominator))))
    raise UnsupportedError(f"an index that is not integer arithmetic: {expression}")

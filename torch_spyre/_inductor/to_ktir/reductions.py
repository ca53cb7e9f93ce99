"""Emits reductions over tiles: sums, extremes, and the indices of extremes."""

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import Kind, ReductionRule, record_of
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.extents import Shape
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.pointwise import operand_class, operation_class
from torch_spyre._inductor.to_ktir.types import F32, I32, bytes_of, is_float
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects import arith as ktir_arith

_MAX_INDEX = (1 << 31) - 1

AddOperation = Callable[[Operation], SSAValue]


def initial_value(rule: ReductionRule, element: Attribute) -> float | int:
    """Return the initial value of an accumulator; the limit of an integer type for an infinity."""
    if is_float(element):
        return rule.initial
    if not math.isinf(rule.initial):
        return int(rule.initial)
    largest = (1 << (8 * bytes_of(element) - 1)) - 1
    return largest if rule.initial > 0 else -largest - 1


class Reducer:
    """Reduces the tiles of one op: initial accumulators, a step for each tile, a result."""

    def __init__(self, emitter: Emitter, spec: OpSpec, shape: Shape) -> None:
        self.emitter, self.spec, self.shape = emitter, spec, shape
        self.record = record_of(spec.op)
        assert self.record.reduction is not None, spec.op
        self.rule = self.record.reduction
        self.returns_index = self.record.kind is Kind.ARG_REDUCTION

    def accumulator(self, element: Attribute, *, streamed: bool) -> Attribute:
        """Return the type of the accumulator for elements of this type."""
        is_narrow = is_float(element) and bytes_of(element) < bytes_of(F32)
        if self.rule.is_wide and is_narrow and (streamed or self.rule.scale is not None):
            return F32
        return element

    def begin(self, element: Attribute) -> list[SSAValue]:
        """Emit the initial accumulators: a value, and an index if the op returns one."""
        emitter = self.emitter
        initial = initial_value(self.rule, element)
        accumulators = [emitter.splat(emitter.scalar(initial, element), self.shape)]
        if self.returns_index:
            accumulators.append(emitter.splat(emitter.scalar(_MAX_INDEX, I32), self.shape))
        return accumulators

    def step(
        self,
        value: SSAValue,
        accumulators: Sequence[SSAValue],
        dims: Sequence[int],
        origins: Sequence[Index],
        strides: Sequence[int],
    ) -> list[SSAValue]:
        """Reduce dims of a tile; `origins` and `strides` determine the indices of elements."""
        if self.returns_index:
            return self._index_step(value, accumulators, dims, origins, strides)
        (accumulator,) = accumulators
        value = converted(self.emitter, value, element_of(accumulator))
        return [self.emitter.reduce(value, accumulator, dims, self.combine)]

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        """Return the operation that combines two accumulators, or an element with one."""
        element = left.type if not isinstance(left.type, TensorType) else element_of(left)
        form = self.record.form(operand_class(element))
        if form is None:
            raise UnsupportedError(f"{self.spec.op} on {element}")
        return operation_class(form)(left, right)

    def end(self, accumulators: Sequence[SSAValue], result: Attribute) -> SSAValue:
        """Emit the result in its element type."""
        if self.returns_index:
            return converted(self.emitter, accumulators[1], result)
        total = accumulators[0]
        if self.rule.scale is not None:
            scale = self.emitter.scalar(self.spec.constants[self.rule.scale], element_of(total))
            total = self.emitter.add(arith.MulfOp(total, self.emitter.splat(scale, self.shape)))
        return converted(self.emitter, total, result)

    def _index_step(
        self,
        value: SSAValue,
        accumulators: Sequence[SSAValue],
        dims: Sequence[int],
        origins: Sequence[Index],
        strides: Sequence[int],
    ) -> list[SSAValue]:
        """Emit the first index of the extreme. NaN is more extreme than any other value."""
        emitter, element = self.emitter, element_of(value)
        rank = len(shape_of(value))
        bases = [emitter.indices.value(origin) for origin in origins]
        factors = [emitter.indices.constant(stride) for stride in strides]
        block = Block(arg_types=[element, element, I32])
        new, best, best_index = block.args
        ops: list[Operation] = []

        def add(operation: Operation) -> SSAValue:
            ops.append(operation)
            return operation.results[0]

        total: SSAValue | None = None
        for dim, base, factor in zip(dims, bases, factors, strict=True):
            position = add(arith.AddiOp(add(IndexOp(dim)), base))
            term = add(arith.MuliOp(position, factor))
            total = term if total is None else add(arith.AddiOp(total, term))
        assert total is not None
        index = add(ktir_arith.IndexCastOp(total, I32))
        compare = _compare_floats if is_float(element) else _compare_integers
        is_better, is_same = compare(self.rule.initial < 0, new, best, add)
        is_earlier = add(ktir_arith.CmpiOp("slt", index, best_index))
        wins_tie = add(arith.AndIOp(is_same, is_earlier))
        wins = add(arith.OrIOp(is_better, wins_tie))
        extreme = add(ktir_arith.SelectOp(wins, new, best))
        extreme_index = add(ktir_arith.SelectOp(wins, index, best_index))
        block.add_ops([*ops, YieldOp(extreme, extreme_index)])
        remaining_dims = AffineMap(
            rank, 0, tuple(AffineExpr.dimension(dim) for dim in range(rank) if dim not in dims)
        )
        iterators = [
            IteratorTypeAttr.reduction() if dim in dims else IteratorTypeAttr.parallel()
            for dim in range(rank)
        ]
        operation = GenericOp(
            [value],
            list(accumulators),
            Region(block),
            [
                AffineMapAttr(AffineMap.identity(rank)),
                AffineMapAttr(remaining_dims),
                AffineMapAttr(remaining_dims),
            ],
            iterators,
            [accumulator.type for accumulator in accumulators],
        )
        emitter.indices.append(operation)
        return list(operation.results)


def _compare_floats(
    is_max: bool, new: SSAValue, best: SSAValue, add: AddOperation
) -> tuple[SSAValue, SSAValue]:
    """Emit whether the new value is more extreme, and whether it ties. NaN ties with NaN."""
    better = add(ktir_arith.CmpfOp("ogt" if is_max else "olt", new, best))
    new_is_nan = add(ktir_arith.CmpfOp("uno", new, new))
    best_is_nan = add(ktir_arith.CmpfOp("uno", best, best))
    best_is_ordered = add(ktir_arith.CmpfOp("ord", best, best))
    equal = add(ktir_arith.CmpfOp("oeq", new, best))
    same = add(arith.OrIOp(equal, add(arith.AndIOp(new_is_nan, best_is_nan))))
    first_nan = add(arith.AndIOp(new_is_nan, best_is_ordered))
    return add(arith.OrIOp(better, first_nan)), same


def _compare_integers(
    is_max: bool, new: SSAValue, best: SSAValue, add: AddOperation
) -> tuple[SSAValue, SSAValue]:
    """Emit whether the new value is more extreme, and whether it ties."""
    better = add(ktir_arith.CmpiOp("sgt" if is_max else "slt", new, best))
    return better, add(ktir_arith.CmpiOp("eq", new, best))

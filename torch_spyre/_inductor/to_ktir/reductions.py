"""Ops that fold symbols: sums, extremes, and where extremes are."""

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.pointwise import converted
from torch_spyre._inductor.to_ktir.types import F32, I32, bytes_of, is_float
from torch_spyre.ktir.dialects import arith as ktir_arith

_LARGEST_PLACE = (1 << 31) - 1

Adder = Callable[[Operation], SSAValue]


@dataclass(frozen=True)
class Fold:
    """One accumulator: what it starts with, and how an element joins it."""

    for_floats: Callable[..., Operation]
    for_integers: Callable[..., Operation]
    start: float
    # Sums of halves are kept in float32 while they are streamed, and rounded at the end.
    wide: bool = False

    def start_of(self, element: Attribute) -> float | int:
        """What elements of this type start with: integers have no infinity but their last one."""
        if is_float(element):
            return self.start
        if not numbers.isinf(self.start):
            return int(self.start)
        largest = (1 << (8 * bytes_of(element) - 1)) - 1
        return largest if self.start > 0 else -largest - 1


FOLDS = {
    "sum": Fold(arith.AddfOp, arith.AddiOp, 0.0, wide=True),
    "mean": Fold(arith.AddfOp, arith.AddiOp, 0.0, wide=True),
    "prod": Fold(arith.MulfOp, arith.MuliOp, 1.0, wide=True),
    "max": Fold(arith.MaximumfOp, arith.MaxSIOp, -numbers.inf),
    "min": Fold(arith.MinimumfOp, arith.MinSIOp, numbers.inf),
}
POSITIONS = ("argmax", "argmin")
REDUCTIONS = (*FOLDS, *POSITIONS)


class Reducer:
    """Folds tiles of one op: a start, a step for each tile, a result."""

    def __init__(self, emitter: Emitter, spec: OpSpec, shape: tuple[int, ...]) -> None:
        self.emitter, self.spec, self.shape = emitter, spec, shape

    def accumulator(self, element: Attribute, *, streamed: bool) -> Attribute:
        """The type of the accumulator for elements of this type."""
        fold = FOLDS.get(self.spec.op)
        scaled = self.spec.op == "mean"
        if fold and fold.wide and is_float(element) and bytes_of(element) < bytes_of(F32):
            return F32 if streamed or scaled else element
        return element

    def begin(self, element: Attribute) -> list[SSAValue]:
        emitter = self.emitter
        if self.spec.op in POSITIONS:
            extreme = FOLDS["max" if self.spec.op == "argmax" else "min"]
            return [
                emitter.splat(emitter.scalar(extreme.start_of(element), element), self.shape),
                emitter.splat(emitter.scalar(_LARGEST_PLACE, I32), self.shape),
            ]
        fold = FOLDS[self.spec.op]
        return [emitter.splat(emitter.scalar(fold.start_of(element), element), self.shape)]

    def step(
        self,
        value: SSAValue,
        so_far: Sequence[SSAValue],
        dims: Sequence[int],
        origins: Sequence[Index],
        strides: Sequence[int],
    ) -> list[SSAValue]:
        """Folds these dims of a tile in. `origins` and `strides` number the elements folded."""
        if self.spec.op in POSITIONS:
            return self._position(value, so_far, dims, origins, strides)
        fold = FOLDS[self.spec.op]
        value = converted(self.emitter, value, element_of(so_far[0]))
        kind = fold.for_floats if is_float(element_of(value)) else fold.for_integers
        return [self.emitter.reduce(value, so_far[0], dims, lambda one, other: kind(one, other))]

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        """Two accumulators made one."""
        fold = FOLDS[self.spec.op]
        kind = fold.for_floats if is_float(element_of(left)) else fold.for_integers
        return kind(left, right)

    def end(self, so_far: Sequence[SSAValue], result: Attribute) -> SSAValue:
        if self.spec.op in POSITIONS:
            return converted(self.emitter, so_far[1], result)
        found = so_far[0]
        if self.spec.op == "mean":
            scale = self.spec.constants["scaling_factor"]
            factor = self.emitter.splat(self.emitter.scalar(scale, element_of(found)), self.shape)
            found = self.emitter.add(arith.MulfOp(found, factor))
        return converted(self.emitter, found, result)

    def _position(
        self,
        value: SSAValue,
        so_far: Sequence[SSAValue],
        dims: Sequence[int],
        origins: Sequence[Index],
        strides: Sequence[int],
    ) -> list[SSAValue]:
        """The first place of the extreme; a NaN is more extreme than any number."""
        emitter, element = self.emitter, element_of(value)
        rank = len(shape_of(value))
        bases = [emitter.indices.value(origin) for origin in origins]
        factors = [emitter.indices.constant(stride) for stride in strides]
        block = Block(arg_types=[element, element, I32])
        new, best, place = block.args
        ops: list[Operation] = []

        def add(operation: Operation) -> SSAValue:
            ops.append(operation)
            return operation.results[0]

        total: SSAValue | None = None
        for dim, base, factor in zip(dims, bases, factors, strict=True):
            here = add(arith.AddiOp(add(IndexOp(dim)), base))
            part = add(arith.MuliOp(here, factor))
            total = part if total is None else add(arith.AddiOp(total, part))
        assert total is not None
        here = add(ktir_arith.IndexCastOp(total, I32))
        compared = _compared_floats if is_float(element) else _compared_integers
        better, same = compared(self.spec.op == "argmax", new, best, add)
        earlier = add(arith.AndIOp(same, add(ktir_arith.CmpiOp("slt", here, place))))
        take = add(arith.OrIOp(better, earlier))
        chosen = add(ktir_arith.SelectOp(take, new, best))
        where = add(ktir_arith.SelectOp(take, here, place))
        block.add_ops([*ops, YieldOp(chosen, where)])
        kept = AffineMap(
            rank, 0, tuple(AffineExpr.dimension(dim) for dim in range(rank) if dim not in dims)
        )
        iterators = [
            IteratorTypeAttr.reduction() if dim in dims else IteratorTypeAttr.parallel()
            for dim in range(rank)
        ]
        operation = GenericOp(
            [value],
            list(so_far),
            Region(block),
            [AffineMapAttr(AffineMap.identity(rank)), AffineMapAttr(kept), AffineMapAttr(kept)],
            iterators,
            [each.type for each in so_far],
        )
        emitter.indices.block.add_op(operation)
        return list(operation.results)


def _compared_floats(
    largest: bool, new: SSAValue, best: SSAValue, add: Adder
) -> tuple[SSAValue, SSAValue]:
    """Is the new one more extreme, and is it the same? All that are not numbers are."""
    better = add(ktir_arith.CmpfOp("ogt" if largest else "olt", new, best))
    nan = add(ktir_arith.CmpfOp("uno", new, new))
    best_nan = add(ktir_arith.CmpfOp("uno", best, best))
    best_number = add(ktir_arith.CmpfOp("ord", best, best))
    equal = add(ktir_arith.CmpfOp("oeq", new, best))
    same = add(arith.OrIOp(equal, add(arith.AndIOp(nan, best_nan))))
    first_nan = add(arith.AndIOp(nan, best_number))
    return add(arith.OrIOp(better, first_nan)), same


def _compared_integers(
    largest: bool, new: SSAValue, best: SSAValue, add: Adder
) -> tuple[SSAValue, SSAValue]:
    better = add(ktir_arith.CmpiOp("sgt" if largest else "slt", new, best))
    return better, add(ktir_arith.CmpiOp("eq", new, best))

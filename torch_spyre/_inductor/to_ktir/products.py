"""Matrix products: tiles of two tensors, summed in float32."""

from collections.abc import Sequence
from math import prod

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.to_ktir.access import access_of
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.pointwise import converted
from torch_spyre._inductor.to_ktir.tiles import Axis, Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, I32, element_type, is_float
from torch_spyre.ktir.dialects.linalg import BatchMatmulOp, MatmulOp


class Product:
    """The roles of a product's symbols: batch, rows and columns of the result, inner."""

    def __init__(self, emitter: Emitter, spec: OpSpec) -> None:
        self.emitter, self.spec = emitter, spec
        left, right = (access_of(arg).symbols for arg in spec.inputs)
        result = access_of(spec.output).symbols
        self.batch = self._in_order(left & right & result)
        self.rows = self._in_order((left & result) - right)
        self.columns = self._in_order((right & result) - left)
        self.inner = self._in_order((left & right) - result)

    def _in_order(self, symbols: frozenset[Symbol]) -> list[Symbol]:
        return [symbol for symbol in self.spec.iteration_space if symbol in symbols]

    def begin(self, frame: Frame, element: Attribute) -> SSAValue:
        accumulator = F32 if is_float(element) else I32
        shape = self._shape(frame, self.batch, self.rows, self.columns)
        return self.emitter.splat(self.emitter.scalar(0, accumulator), shape)

    def step(self, left: Value, right: Value, so_far: SSAValue, frame: Frame) -> SSAValue:
        factors = [
            self._matrix(left, frame, self.rows, self.inner),
            self._matrix(right, frame, self.inner, self.columns),
        ]
        kind = BatchMatmulOp if self.batch else MatmulOp
        return self.emitter.add(kind(factors, [so_far]))

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        """Two accumulators made one."""
        kind = arith.AddfOp if is_float(element_of(left)) else arith.AddiOp
        return kind(left, right)

    def end(self, so_far: SSAValue, frame: Frame) -> Value:
        """The result with an axis for each symbol, in the frame's order."""
        symbols = [*self.batch, *self.rows, *self.columns]
        axes = [Axis(symbol) for symbol in symbols]
        groups, position = [], 0
        for part in (self.batch, self.rows, self.columns):
            if part is self.batch and not part:
                continue
            groups.append(list(range(position, position + max(1, len(part)))))
            position += max(1, len(part))
        raw = converted(self.emitter, so_far, self._result_element())
        raw = self._apart(raw, frame, groups)
        ordered = [axis for axis in frame.axes if axis in axes]
        return Value(
            self.emitter.transpose(raw, [axes.index(axis) for axis in ordered]), tuple(ordered)
        )

    def _result_element(self) -> Attribute:
        return element_type(self.spec.output.device_dtype)

    def _apart(self, raw: SSAValue, frame: Frame, groups: Sequence[Sequence[int]]) -> SSAValue:
        parts: list[list[Symbol]] = [self.batch, self.rows, self.columns]
        if not self.batch:
            parts = parts[1:]
        shape = tuple(frame.extents[symbol] for part in parts for symbol in part)
        padded = tuple(
            size for part in parts for size in ([frame.extents[symbol] for symbol in part] or [1])
        )
        raw = self.emitter.reshape(raw, groups, padded)
        if padded == shape:
            return raw
        return self._without_ones(raw, parts, shape)

    def _without_ones(
        self, raw: SSAValue, parts: Sequence[Sequence[Symbol]], shape: tuple[int, ...]
    ) -> SSAValue:
        """A product with one row or column has no symbol for it: drops that dim."""
        keep: list[list[int]] = []
        position = 0
        pending: list[int] = []
        for part in parts:
            if not part:
                pending.append(position)
                position += 1
                continue
            for _ in part:
                keep.append([*pending, position])
                pending = []
                position += 1
        if pending and keep:
            keep[-1].extend(pending)
        return self.emitter.reshape(raw, keep, shape)

    def _matrix(
        self, value: Value, frame: Frame, first: Sequence[Symbol], second: Sequence[Symbol]
    ) -> SSAValue:
        wanted = [Axis(symbol) for symbol in (*self.batch, *first, *second)]
        raw = self.emitter.transpose(value.ssa, [value.axes.index(axis) for axis in wanted])
        parts = [self.batch, first, second] if self.batch else [first, second]
        shape = self._shape(frame, *parts) if self.batch else self._shape(frame, [], *parts)
        joins: list[list[int]] = []
        position = 0
        for part in parts:
            joins.append(list(range(position, position + len(part))))
            position += len(part)
        if all(joins):
            return self.emitter.reshape(raw, joins, shape)
        return self._with_ones(raw, parts, shape)

    def _with_ones(
        self, raw: SSAValue, parts: Sequence[Sequence[Symbol]], shape: tuple[int, ...]
    ) -> SSAValue:
        """Adds the dim of a matrix that has one row or column only."""
        present = [part for part in parts if part]
        joins, position = [], 0
        for part in present:
            joins.append(list(range(position, position + len(part))))
            position += len(part)
        joined = tuple(prod(shape_of(raw)[dim] for dim in group) for group in joins)
        raw = self.emitter.reshape(raw, joins, joined)
        groups: list[list[int]] = []
        pending: list[int] = []
        for place, part in enumerate(parts):
            if part:
                groups.append([*pending, place])
                pending = []
            else:
                pending.append(place)
        groups[-1].extend(pending)
        return self.emitter.reshape(raw, groups, shape)

    def _shape(self, frame: Frame, *parts: Sequence[Symbol]) -> tuple[int, ...]:
        batch, *others = parts
        sizes = [prod(frame.extents[symbol] for symbol in part) for part in others]
        if batch:
            sizes.insert(0, prod(frame.extents[symbol] for symbol in batch))
        return tuple(sizes)

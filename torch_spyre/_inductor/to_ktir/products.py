"""Matrix products: tiles of two tensors, summed in float32."""

from collections.abc import Sequence
from math import prod

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.to_ktir.access import access_of
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.tiles import Axis, Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, I32, element_type, is_float
from torch_spyre.ktir.dialects.linalg import BatchMatmulOp, MatmulOp

# The symbols along each dim of a matrix, or of a batch of them. None stand for a dim of one.
Parts = Sequence[Sequence[Symbol]]


class Product:
    """The roles of a product's symbols: batch, rows and columns of the result, inner."""

    def __init__(self, emitter: Emitter, spec: OpSpec) -> None:
        self.emitter, self.spec = emitter, spec
        left, right = (access_of(arg).symbols for arg in spec.inputs)
        result = access_of(spec.output).symbols
        self.batch = self._in_order(left & right & result)
        self.columns = self._in_order((right & result) - left)
        # Also those along which neither factor changes: the left one is repeated.
        self.rows = self._in_order(result - right)
        self.inner = self._in_order(frozenset(spec.iteration_space) - result)
        # What each factor must have an axis for.
        self.of_left = frozenset((*self.batch, *self.rows, *self.inner))
        self.of_right = frozenset((*self.batch, *self.inner, *self.columns))

    def _in_order(self, symbols: frozenset[Symbol]) -> list[Symbol]:
        return [symbol for symbol in self.spec.iteration_space if symbol in symbols]

    def _parts(self, first: Sequence[Symbol], second: Sequence[Symbol]) -> Parts:
        return [self.batch, first, second] if self.batch else [first, second]

    def begin(self, frame: Frame, element: Attribute) -> SSAValue:
        accumulator = F32 if is_float(element) else I32
        parts = self._parts(self.rows, self.columns)
        shape = tuple(prod(frame.extents[symbol] for symbol in part) for part in parts)
        return self.emitter.splat(self.emitter.scalar(0, accumulator), shape)

    def step(self, left: Value, right: Value, so_far: SSAValue, frame: Frame) -> SSAValue:
        factors = [
            self._matrix(left, frame, self._parts(self.rows, self.inner)),
            self._matrix(right, frame, self._parts(self.inner, self.columns)),
        ]
        kind = BatchMatmulOp if self.batch else MatmulOp
        return self.emitter.add(kind(factors, [so_far]))

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        """Two accumulators made one."""
        kind = arith.AddfOp if is_float(element_of(left)) else arith.AddiOp
        return kind(left, right)

    def end(self, so_far: SSAValue, frame: Frame) -> Value:
        """The result with an axis for each symbol, in the frame's order."""
        parts = self._parts(self.rows, self.columns)
        raw = converted(self.emitter, so_far, element_type(self.spec.output.device_dtype))
        with_ones = [
            size for part in parts for size in ([frame.extents[each] for each in part] or [1])
        ]
        raw = self.emitter.reshape(raw, _dims(parts), tuple(with_ones))
        axes = [Axis(symbol) for part in parts for symbol in part]
        raw = self.emitter.reshape(raw, _beside_ones(parts), frame.shape(axes))
        ordered = [axis for axis in frame.axes if axis in axes]
        raw = self.emitter.transpose(raw, [axes.index(axis) for axis in ordered])
        return Value(raw, tuple(ordered))

    def _matrix(self, value: Value, frame: Frame, parts: Parts) -> SSAValue:
        """A factor with one dim for each part."""
        symbols = [symbol for part in parts for symbol in part]
        raw = self.emitter.transpose(
            value.ssa, [value.axes.index(Axis(symbol)) for symbol in symbols]
        )
        # What fills the last stick must not be summed.
        sizes = tuple(
            (frame.valid if symbol in self.inner else frame.extents)[symbol] for symbol in symbols
        )
        raw = self.emitter.slice(raw, (0,) * len(sizes), sizes)
        extents = dict(zip(symbols, shape_of(raw), strict=True))
        with_ones = [size for part in parts for size in ([extents[each] for each in part] or [1])]
        raw = self.emitter.reshape(raw, _beside_ones(parts), tuple(with_ones))
        joined = tuple(prod(extents[symbol] for symbol in part) for part in parts)
        return self.emitter.reshape(raw, _dims(parts), joined)


def _dims(parts: Parts) -> list[list[int]]:
    """The dims of each part, if those without symbols have a dim of one."""
    dims: list[list[int]] = []
    position = 0
    for part in parts:
        width = max(1, len(part))
        dims.append(list(range(position, position + width)))
        position += width
    return dims


def _beside_ones(parts: Parts) -> list[list[int]]:
    """The same dims with one symbol in each group: dims of one join a neighbour."""
    groups: list[list[int]] = []
    pending: list[int] = []
    for part, dims in zip(parts, _dims(parts), strict=True):
        for dim in dims:
            pending.append(dim)
            if part:
                groups.append(pending)
                pending = []
    if groups:
        groups[-1].extend(pending)
    return groups

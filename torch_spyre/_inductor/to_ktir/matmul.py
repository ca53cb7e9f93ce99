"""Emits matmuls of tiles, accumulated in float32."""

from collections.abc import Mapping, Sequence
from math import prod

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.tiling.access import access_of
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of, shape_of
from torch_spyre._inductor.to_ktir.extents import Shape, Size
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, I32, element_type, is_float
from torch_spyre.ktir.dialects.linalg import BatchMatmulOp, MatmulOp

# The symbols along each dim of a matrix, or batch of matrices. A dim without symbols has size 1.
DimSymbols = Sequence[Sequence[Symbol]]


class Matmul:
    """One matmul, with its symbols by role: batch, rows and columns of the result, inner."""

    def __init__(self, emitter: Emitter, spec: OpSpec) -> None:
        self.emitter, self.spec = emitter, spec
        left, right = (access_of(arg).symbols for arg in spec.inputs)
        result = access_of(spec.output).symbols
        self.batch = self._in_order(left & right & result)
        self.columns = self._in_order((right & result) - left)
        # Includes symbols that neither factor has: the left factor is broadcast along them.
        self.rows = self._in_order(result - right)
        self.inner = self._in_order(frozenset(spec.iteration_space) - result)
        # The symbols that each factor must have an axis for.
        self.left_symbols = frozenset((*self.batch, *self.rows, *self.inner))
        self.right_symbols = frozenset((*self.batch, *self.inner, *self.columns))

    def _in_order(self, symbols: frozenset[Symbol]) -> list[Symbol]:
        return [symbol for symbol in self.spec.iteration_space if symbol in symbols]

    def _matrix_dims(self, first: Sequence[Symbol], second: Sequence[Symbol]) -> DimSymbols:
        return [self.batch, first, second] if self.batch else [first, second]

    def initial_accumulator(self, frame: Frame, element: Attribute) -> SSAValue:
        """Emit zeros for factors with elements of this type."""
        accumulator = F32 if is_float(element) else I32
        dims = self._matrix_dims(self.rows, self.columns)
        shape = tuple(prod(frame.extents[symbol] for symbol in symbols) for symbols in dims)
        return self.emitter.splat(self.emitter.scalar(0, accumulator), shape)

    def update(self, left: Value, right: Value, accumulator: SSAValue, frame: Frame) -> SSAValue:
        """Emit the accumulator plus the matmul of two tiles."""
        factors = [
            self._matrix(left, frame, self._matrix_dims(self.rows, self.inner)),
            self._matrix(right, frame, self._matrix_dims(self.inner, self.columns)),
        ]
        kind = BatchMatmulOp if self.batch else MatmulOp
        return self.emitter.add_with_shape(kind(factors, [accumulator]), shape_of(accumulator))

    def combine(self, left: SSAValue, right: SSAValue) -> Operation:
        """Return the op that adds two accumulators."""
        kind = arith.AddfOp if is_float(element_of(left)) else arith.AddiOp
        return kind(left, right)

    def result(self, accumulator: SSAValue, frame: Frame) -> Value:
        """Emit the result with an axis for each symbol, in the frame's order."""
        dims = self._matrix_dims(self.rows, self.columns)
        raw = converted(self.emitter, accumulator, element_type(self.spec.output.device_dtype))
        raw = self.emitter.reshape(raw, _groups(dims), _sizes(dims, frame.extents))
        axes = [Axis(symbol) for symbols in dims for symbol in symbols]
        raw = self.emitter.reshape(raw, _groups_without_ones(dims), frame.shape(axes))
        ordered = [axis for axis in frame.axes if axis in axes]
        raw = self.emitter.transpose(raw, [axes.index(axis) for axis in ordered])
        return Value(raw, tuple(ordered))

    def _matrix(self, value: Value, frame: Frame, dims: DimSymbols) -> SSAValue:
        """Emit a factor as a matrix, or a batch of matrices."""
        symbols = [symbol for dim in dims for symbol in dim]
        raw = self.emitter.transpose(
            value.ssa, [value.axes.index(Axis(symbol)) for symbol in symbols]
        )
        # The padding of the last stick must not be summed.
        sizes = tuple(
            (frame.valid if symbol in self.inner else frame.extents)[symbol] for symbol in symbols
        )
        raw = self.emitter.slice(raw, (0,) * len(sizes), sizes)
        extents = dict(zip(symbols, shape_of(raw), strict=True))
        raw = self.emitter.reshape(raw, _groups_without_ones(dims), _sizes(dims, extents))
        shape = tuple(prod(extents[symbol] for symbol in dim) for dim in dims)
        return self.emitter.reshape(raw, _groups(dims), shape)


def _sizes(dims: DimSymbols, extents: Mapping[Symbol, Size]) -> Shape:
    """Return the extents of all symbols, and 1 for each dim without symbols."""
    return tuple(size for dim in dims for size in ([extents[symbol] for symbol in dim] or [1]))


def _groups(dims: DimSymbols) -> list[list[int]]:
    """Return the positions of each dim's entries in `_sizes`: the groups of a reshape."""
    groups: list[list[int]] = []
    position = 0
    for dim in dims:
        width = max(1, len(dim))
        groups.append(list(range(position, position + width)))
        position += width
    return groups


def _groups_without_ones(dims: DimSymbols) -> list[list[int]]:
    """Return positions in `_sizes`, one symbol per group; a 1 joins the group of a neighbour."""
    groups: list[list[int]] = []
    pending: list[int] = []
    for dim, positions in zip(dims, _groups(dims), strict=True):
        for position in positions:
            pending.append(position)
            if dim:
                groups.append(pending)
                pending = []
    if groups:
        groups[-1].extend(pending)
    return groups

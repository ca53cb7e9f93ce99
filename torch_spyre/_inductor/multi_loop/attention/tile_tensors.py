"""The tensors of one tile of rows, as matrices."""

from collections.abc import Sequence
from math import prod

from sympy import Symbol
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from torch_spyre._inductor.multi_loop.attention.operands import AttentionOperands
from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.tiling.axis import Axis
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import element_of, shape_of
from torch_spyre._inductor.to_ktir.extents import Shape
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, element_type
from torch_spyre.ktir.dialects import arith as ktir_arith


class TileTensors:
    """Loads, stores and constants of a tile of rows.

    Values with one element per row have the shape `row_shape`, a dim for each row symbol; matrices
    have one dim of all rows.
    """

    def __init__(self, kernel: KernelContext, operands: AttentionOperands, frame: Frame) -> None:
        self.emitter, self.transfers = kernel.emitter, kernel.transfers
        self.accesses = kernel.plan.space.accesses
        self.frame = frame
        self.row_shape = tuple(frame.extents[symbol] for symbol in operands.rows) or (1,)
        self.num_rows = prod(self.row_shape)

    def load_along(self, arg: TensorArg, symbols: Sequence[Symbol], frame: Frame) -> Value:
        """Load a tile, broadcast along those of `symbols` that the tensor lacks."""
        loaded = self.transfers.load(self.accesses[arg], frame, {})
        present = {*loaded.axes, *map(Axis, symbols)}
        axes = [axis for axis in frame.axes if axis in present]
        return self.transfers.broadcast_to(loaded, axes, frame)

    def load_matrix(
        self, arg: TensorArg, rows: Sequence[Symbol], columns: Sequence[Symbol], frame: Frame
    ) -> SSAValue:
        """Load a tile as a matrix, broadcast along the symbols that the tensor lacks."""
        raw = self.load_along(arg, (*rows, *columns), frame).ssa
        rank = len(shape_of(raw))
        num_row_dims = rank - len(columns)
        groups = [list(range(num_row_dims)), list(range(num_row_dims, rank))]
        num_columns = prod(frame.extents[symbol] for symbol in columns)
        if num_row_dims:
            num_rows = prod(shape_of(raw)[:num_row_dims])
            return self.emitter.reshape(raw, groups, (num_rows, num_columns))
        raw = self.emitter.reshape(raw, groups[1:], (num_columns,))
        return self.emitter.reshape(raw, [[0, 1]], (1, num_columns))

    def store(self, arg: TensorArg, raw: SSAValue, symbols: Sequence[Symbol]) -> None:
        """Store a value whose elements are ordered by `symbols`, outermost first."""
        emitter, frame = self.emitter, self.frame
        raw = converted(emitter, raw, element_type(arg.device_dtype))
        shape = tuple(frame.extents[symbol] for symbol in symbols)
        # Through one dim of all elements, as a reshape either collapses or expands dims.
        rank = len(shape_of(raw))
        raw = emitter.reshape(raw, [list(range(rank))] if rank else [], (prod(shape),))
        raw = emitter.reshape(raw, [list(range(len(shape)))] if shape else [], shape)
        axes = tuple(Axis(symbol) for symbol in symbols)
        self.transfers.store(self.accesses[arg], frame, Value(raw, axes), {}, is_partial=False)

    def as_matrix(self, raw: SSAValue) -> SSAValue:
        """Collapse the row dims of a value that has one more dim, the columns."""
        rank = len(self.row_shape)
        shape = (self.num_rows, shape_of(raw)[-1])
        return self.emitter.reshape(raw, [list(range(rank)), [rank]], shape)

    def broadcast_along_columns(self, raw: SSAValue, shape: Shape) -> SSAValue:
        """Broadcast one element per row to a matrix."""
        rank = len(self.row_shape)
        flat = self.emitter.reshape(raw, [list(range(rank))], (self.num_rows,))
        return self.emitter.broadcast(flat, shape, [1])

    def scaled(self, raw: SSAValue, factor: float) -> SSAValue:
        """Multiply a tensor by a constant."""
        scalar = self.emitter.scalar(factor, element_of(raw))
        return self.emitter.add(arith.MulfOp(raw, self.emitter.splat(scalar, shape_of(raw))))

    def filled(self, value: float, shape: Shape) -> SSAValue:
        """Return a float32 tensor of one value."""
        return self.emitter.splat(self.emitter.scalar(value, F32), shape)

    def where_equal(self, raw: SSAValue, value: float, replacement: float) -> SSAValue:
        """Replace the elements that equal `value`."""
        shape = shape_of(raw)
        is_equal = self.emitter.add(ktir_arith.CmpfOp("oeq", raw, self.filled(value, shape)))
        return self.select(is_equal, self.filled(replacement, shape), raw)

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        return self.emitter.add(ktir_arith.SelectOp(condition, if_true, if_false))

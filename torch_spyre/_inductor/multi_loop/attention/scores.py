"""The scores of a tile of rows and a tile of keys: scaled, with bias and causal mask."""

import math
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.ir import SSAValue

from torch_spyre._inductor.multi_loop.attention.operands import AttentionOperands
from torch_spyre._inductor.multi_loop.attention.tile_tensors import TileTensors
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.coordinates import emit_index
from torch_spyre._inductor.to_ktir.emitter import shape_of
from torch_spyre._inductor.to_ktir.extents import Shape
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre._inductor.to_ktir.types import F32, I32
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects.linalg import MatmulOp

# The score of a masked key.
MASKED = -math.inf


@dataclass(frozen=True)
class Scores:
    """Emits scores in float32."""

    tensors: TileTensors
    operands: AttentionOperands
    scale: float

    def load_query(self) -> SSAValue:
        """Load the queries of the tile, scaled if that is exact."""
        operands = self.operands
        frame = self.tensors.frame
        query = self.tensors.load_matrix(operands.query, operands.rows, operands.inner, frame)
        return self.tensors.scaled(query, self.scale) if _is_exact_factor(self.scale) else query

    def load_bias(self, frame: Frame) -> Value | None:
        """Load the bias in float32, with a dim for each row symbol that it has, and one of keys."""
        if self.operands.bias is None:
            return None
        loaded = self.tensors.load_along(self.operands.bias, self.operands.keys, frame)
        rows = [axis for axis in loaded.axes if axis.symbol in self.operands.rows]
        groups: list[list[int]] = [[] for _ in range(len(rows) + 1)]
        position = 0
        for dim, axis in enumerate(loaded.axes):
            groups[position].append(dim)
            if position < len(rows) and axis == rows[position]:
                position += 1
        shape = shape_of(loaded.ssa)
        collapsed = tuple(prod(shape[dim] for dim in group) for group in groups)
        raw = self.tensors.emitter.reshape(loaded.ssa, groups, collapsed)
        return Value(converted(self.tensors.emitter, raw, F32), tuple(rows))

    def is_any_visible(self, bias: SSAValue) -> SSAValue:
        """Emit whether any element of the bias is not minus infinity. NaN counts as visible."""
        emitter, shape = self.tensors.emitter, shape_of(bias)
        groups = [[0, 1], *([dim + 1] for dim in range(1, len(shape)))]
        flat = emitter.reshape(bias, groups, (1, *shape))
        dims = range(1, len(shape) + 1)
        initial = self.tensors.filled(MASKED, (1,))
        maximum = emitter.reduce(flat, initial, dims, arith.MaximumfOp)
        zero = emitter.indices.constant(0)
        scalar = emitter.add(tensor.ExtractOp(maximum, [zero], F32))
        return emitter.add(ktir_arith.CmpfOp("une", scalar, emitter.scalar(MASKED, F32)))

    def emit(
        self, query: SSAValue, frame: Frame, bias: Value | None, apply_causal_mask: bool
    ) -> SSAValue:
        """Emit the score of each row and key."""
        tensors, operands, emitter = self.tensors, self.operands, self.tensors.emitter
        key = tensors.load_matrix(operands.key, operands.keys, operands.inner, frame)
        num_keys = shape_of(key)[0]
        zeros = tensors.filled(0.0, (tensors.num_rows, num_keys))
        matmul = MatmulOp([query, emitter.transpose(key, [1, 0])], [zeros])
        raw = emitter.add_with_shape(matmul, shape_of(zeros))
        shape = (*tensors.row_shape, num_keys)
        rank = len(tensors.row_shape)
        scores = emitter.reshape(raw, [list(range(rank)), [rank]], shape)
        if not _is_exact_factor(self.scale):
            scores = tensors.scaled(scores, self.scale)
        if bias is not None:
            row_dims = [operands.rows.index(axis.symbol) for axis in bias.axes]
            missing = [dim for dim in range(rank) if dim not in row_dims]
            scores = emitter.add(arith.AddfOp(scores, emitter.broadcast(bias.ssa, shape, missing)))
        if apply_causal_mask:
            mask = self._causal_mask(frame, shape)
            scores = tensors.select(mask, scores, tensors.filled(MASKED, shape))
        return scores

    def _causal_mask(self, frame: Frame, shape: Shape) -> SSAValue:
        """Emit whether the index of a key is at most that of the row."""
        emitter, operands = self.tensors.emitter, self.operands
        keys = emit_index(emitter, operands.key_index, I32, frame).ssa
        keys = emitter.reshape(keys, [list(range(len(operands.keys)))], shape[-1:])
        keys = emitter.broadcast(keys, shape, list(range(len(shape) - 1)))
        rows = emit_index(emitter, operands.row_index, I32, frame)
        if rows.is_scalar:
            return emitter.add(ktir_arith.CmpiOp("sle", keys, emitter.splat(rows.ssa, shape)))
        row_dims = [operands.rows.index(axis.symbol) for axis in rows.axes]
        missing = [dim for dim in range(len(shape)) if dim not in row_dims]
        row_indices = emitter.broadcast(rows.ssa, shape, missing)
        return emitter.add(ktir_arith.CmpiOp("sle", keys, row_indices))


def _is_exact_factor(scale: float) -> bool:
    """Return whether multiplying by a power of 2 is exact: it changes exponents only."""
    return abs(math.frexp(scale)[0]) == 0.5 and 2**-16 <= abs(scale) <= 1

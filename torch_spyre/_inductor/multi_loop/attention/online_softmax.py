"""Emits attention for one tile of rows: keys are streamed, and the softmax is computed online.

For each row the maximum score so far, the sum of exponentials and the weighted sum of values are
carried in float32; a larger maximum rescales both sums.

A score of minus infinity has weight 0, and a row in which all scores are masked yields zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from torch_spyre._inductor.multi_loop.attention.key_loop import KeyLoop
from torch_spyre._inductor.multi_loop.attention.operands import AttentionOperands
from torch_spyre._inductor.multi_loop.attention.scores import MASKED, Scores
from torch_spyre._inductor.multi_loop.attention.tile_tensors import TileTensors
from torch_spyre._inductor.op_table.attention import ATTENTION
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import element_of, shape_of
from torch_spyre._inductor.to_ktir.indices import Index
from torch_spyre._inductor.to_ktir.tiles import Frame, Value
from torch_spyre.ktir.dialects import arith as ktir_arith
from torch_spyre.ktir.dialects.linalg import MatmulOp


@dataclass(frozen=True)
class _State:
    """The values that one tile of keys passes to the next."""

    maximum: SSAValue
    total: SSAValue
    # None in a kernel that computes the logsumexp only.
    weighted: SSAValue | None

    @property
    def values(self) -> list[SSAValue]:
        values = [self.maximum, self.total]
        return values if self.weighted is None else [*values, self.weighted]

    @staticmethod
    def from_values(values: Sequence[SSAValue]) -> "_State":
        maximum, total, *weighted = values
        return _State(maximum, total, weighted[0] if weighted else None)


class OnlineSoftmax:
    """Emits attention for one tile of rows."""

    def __init__(self, kernel: KernelContext, frame: Frame) -> None:
        self.kernel, self.emitter, self.frame = kernel, kernel.emitter, frame
        self.operands = AttentionOperands.from_specs(kernel.specs, kernel.plan.space)
        self.tensors = TileTensors(kernel, self.operands, frame)
        constants = kernel.specs[0].constants
        self.scores = Scores(self.tensors, self.operands, float(constants["scale"]))
        self.is_causal = bool(constants["causal"])

    def emit(self) -> None:
        """Emit the loads, the loop over all keys, and the stores of the results."""
        query = self.scores.load_query()
        keys = KeyLoop(self.emitter, self.operands, self.kernel.plan, self.frame, self.is_causal)
        values = keys.emit(
            self._initial_state().values,
            lambda frame, carried, apply_causal_mask: (
                self._visit_keys(
                    query, frame, _State.from_values(carried), apply_causal_mask
                ).values
            ),
        )
        self._store_results(_State.from_values(values))

    def _initial_state(self) -> _State:
        tensors, operands = self.tensors, self.operands
        maximum = tensors.filled(MASKED, tensors.row_shape)
        total = tensors.filled(0.0, tensors.row_shape)
        if operands.value is None:
            return _State(maximum, total, None)
        channels = prod(self.frame.extents[symbol] for symbol in operands.values)
        return _State(maximum, total, tensors.filled(0.0, (tensors.num_rows, channels)))

    def _visit_keys(
        self, query: SSAValue, frame: Frame, state: _State, apply_causal_mask: bool
    ) -> _State:
        bias = self.scores.load_bias(frame)
        if bias is None:
            return self._update(query, frame, state, None, apply_causal_mask)
        # A loop of at most one iteration: keys and values that the bias masks for all rows of the
        # tile are not loaded.
        arithmetic = self.emitter.indices
        one, zero = arithmetic.constant(1), arithmetic.constant(0)
        is_visible = self.scores.is_any_visible(bias.ssa)
        trips = self.emitter.add(ktir_arith.SelectOp(is_visible, one, zero))
        values = self.emitter.loop_between(
            Index(0),
            Index(0, trips, 1),
            1,
            state.values,
            lambda _, carried: (
                self._update(
                    query, frame, _State.from_values(carried), bias, apply_causal_mask
                ).values
            ),
        )
        return _State.from_values(values)

    def _update(
        self,
        query: SSAValue,
        frame: Frame,
        state: _State,
        bias: Value | None,
        apply_causal_mask: bool,
    ) -> _State:
        """Emit the state after one tile of keys."""
        emitter, tensors, operands = self.emitter, self.tensors, self.operands
        scores = self.scores.emit(query, frame, bias, apply_causal_mask)
        key_dim = len(shape_of(scores)) - 1
        maximum = emitter.reduce(scores, state.maximum, [key_dim], arith.MaximumfOp)
        shift = self._finite_maximum(maximum)
        rescale = emitter.add(math.ExpOp(emitter.add(arith.SubfOp(state.maximum, shift))))
        shifts = emitter.broadcast(shift, shape_of(scores), [key_dim])
        weights = emitter.add(math.ExpOp(emitter.add(arith.SubfOp(scores, shifts))))
        rescaled_total = emitter.add(arith.MulfOp(state.total, rescale))
        total = emitter.reduce(weights, rescaled_total, [key_dim], arith.AddfOp)
        if state.weighted is None or operands.value is None:
            return _State(maximum, total, None)
        value = tensors.load_matrix(operands.value, operands.keys, operands.values, frame)
        rescales = tensors.broadcast_along_columns(rescale, shape_of(state.weighted))
        rescaled = emitter.add(arith.MulfOp(state.weighted, rescales))
        factor = converted(emitter, tensors.as_matrix(weights), element_of(value))
        matmul = MatmulOp([factor, value], [rescaled])
        return _State(maximum, total, emitter.add_with_shape(matmul, shape_of(rescaled)))

    def _finite_maximum(self, maximum: SSAValue) -> SSAValue:
        """Emit the maximum, or 0 for rows in which all scores so far are masked by a bias."""
        if self.operands.bias is None:
            return maximum
        return self.tensors.where_equal(maximum, MASKED, 0.0)

    def _store_results(self, state: _State) -> None:
        emitter, tensors, operands = self.emitter, self.tensors, self.operands
        maximum, total = self._finite_maximum(state.maximum), state.total
        if operands.bias is not None:
            total = tensors.where_equal(total, 0.0, 1.0)
        for spec in self.kernel.specs:
            if spec.op == ATTENTION:
                assert state.weighted is not None
                totals = tensors.broadcast_along_columns(total, shape_of(state.weighted))
                mean = emitter.add(arith.DivfOp(state.weighted, totals))
                tensors.store(spec.output, mean, (*operands.rows, *operands.values))
            else:
                logarithm = emitter.add(math.LogOp(total))
                logsumexp = emitter.add(arith.AddfOp(maximum, logarithm))
                tensors.store(spec.output, logsumexp, operands.rows)

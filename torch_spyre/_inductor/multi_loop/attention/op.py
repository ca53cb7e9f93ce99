"""Attention as the passes and the emitter see it."""

from collections.abc import Mapping, Sequence

from sympy import Symbol

from torch_spyre._inductor.layouts.graph import LayoutOp
from torch_spyre._inductor.layouts.sticks import StickCandidate
from torch_spyre._inductor.loop_ir import LoopOp, Reduction
from torch_spyre._inductor.multi_loop.attention import op_info, tiling
from torch_spyre._inductor.multi_loop.attention.bounds import AttentionBounds
from torch_spyre._inductor.multi_loop.attention.online_softmax import OnlineSoftmax
from torch_spyre._inductor.multi_loop.interface import MultiLoopOp
from torch_spyre._inductor.multi_loop.registry import register
from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import record_of
from torch_spyre._inductor.op_table.attention import ATTENTION, LOGSUMEXP
from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import TilePlan
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre.ops.attention import OVERLOAD


class AttentionOp(MultiLoopOp):
    """Reads query, key, value and perhaps a bias; the logsumexp reads no value."""

    overload = OVERLOAD
    names = (ATTENTION, LOGSUMEXP)
    constants = record_of(ATTENTION).constants
    # Dims 0 and 1 of the result are batches and heads.
    roles = {"row": "c2", "value": "c3", "key": "r0", "inner": "r1"}
    supports_dynamic_sizes = True

    def stick_candidates(self, op: LayoutOp) -> Sequence[StickCandidate]:
        """Return sticks along channels, along keys for a bias, and none for the logsumexp."""
        keys, inner = op.reduced
        if op.kind == LOGSUMEXP:
            sticks: tuple[str, ...] = (inner, inner, keys)
            return [StickCandidate(None, sticks[: len(op.reads)])]
        channels = [name for name in op.loops if name not in op.reduced][-1]
        sticks = (inner, inner, channels, keys)
        return [StickCandidate(channels, sticks[: len(op.reads)])]

    def can_merge(self, group: Sequence[LoopOp], op: LoopOp) -> bool:
        """Return whether `op` is the logsumexp of the scores that `group` computes."""
        if len(group) != 1:
            return False
        result, logsumexp = group[0].value, op.value
        if not isinstance(result, Reduction) or not isinstance(logsumexp, Reduction):
            return False
        if (result.op, logsumexp.op) != self.names or result.constants != logsumexp.constants:
            return False
        query, key, _, *bias = result.inputs
        return (query, key, *bias) == logsumexp.inputs

    def core_splits(
        self, specs: Sequence[OpSpec], space: IterationSpace, cores: int
    ) -> Mapping[Symbol, int]:
        return tiling.core_splits(specs, space, cores)

    def plan_tiles(self, specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
        return tiling.plan_tiles(specs, budget)

    def emit_tile(self, kernel: KernelContext, frame: Frame) -> None:
        OnlineSoftmax(kernel, frame).emit()

    def enclose(self, spec: OpSpec, operands: Sequence[Bounds], grid: Grid) -> Bounds:
        return AttentionBounds(spec, grid).compute(operands)

    def check_op_info(self, spec: OpSpec, roles: LoopRoles, info: Field, dsc: Field) -> None:
        op_info.check_roles(spec, roles, info, dsc)


register(AttentionOp())

"""Cores that fold one result together: each a slice of what is folded, combined over the ring."""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineExpr, AffineSet

from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.work_division import Digit
from torch_spyre.ktir.affine import box_set
from torch_spyre.ktir.dialects.ktdp.inter_tile import (
    InterTileProduceOp,
    InterTileReduceOp,
    YieldPartialOp,
    YieldReducedOp,
)
from torch_spyre.ktir.dialects.ktdp.types import TileFutureType

Combine = Callable[[SSAValue, SSAValue], Operation]


@dataclass(frozen=True)
class Sharing:
    """Groups of cores whose numbers differ in one digit. A group is named after its first core."""

    digit: Digit
    cores: int

    @property
    def groups(self) -> AffineSet:
        """First cores: those with slice 0."""
        core = AffineExpr.dimension(0)
        slice = (core // self.digit.stride) % self.digit.split
        everyone = box_set([self.cores])
        return AffineSet(1, 0, (*everyone.constraints, _equal(slice)))

    @property
    def members(self) -> AffineSet:
        steps = AffineExpr.dimension(0) - AffineExpr.symbol(0)
        stride = self.digit.stride
        last = stride * (self.digit.split - 1)
        constraints = [_at_least(steps), _at_least(-steps + last)]
        if stride > 1:
            constraints.append(_equal(steps % stride))
        return AffineSet(1, 1, tuple(constraints))

    @property
    def first(self) -> AffineSet:
        return AffineSet(1, 1, (_equal(AffineExpr.dimension(0) - AffineExpr.symbol(0)),))


def _equal(expression: AffineExpr) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.eq, expression, AffineExpr.constant(0))


def _at_least(expression: AffineExpr) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.ge, expression, AffineExpr.constant(0))


def combined(
    emitter: Emitter, sharing: Sharing, partial: SSAValue, identity: SSAValue, combine: Combine
) -> SSAValue:
    """What the partial results of a group make together; only its first core gets it."""
    future_type = TileFutureType([partial.type], sharing.groups)
    produced = Block([YieldPartialOp(partial)], arg_types=[IndexType()])
    future = emitter.add(InterTileProduceOp(sharing.members, future_type, Region(produced)))
    block = Block(arg_types=[partial.type, partial.type])
    both = combine(*block.args)
    block.add_ops([both, YieldReducedOp(both.results[0])])
    return emitter.add(
        InterTileReduceOp(
            future,
            sharing.first,
            [partial.type],
            identities=[identity],
            combiner=Region(block),
        )
    )

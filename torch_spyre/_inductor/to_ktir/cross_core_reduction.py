"""Emits reductions across cores: each core reduces a slice, and the ring combines the results."""

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
class CoreGroups:
    """Groups of cores whose ids differ in one digit. A group's id is that of its first core."""

    digit: Digit
    cores: int

    @property
    def groups(self) -> AffineSet:
        """The ids of all groups: cores with slice 0."""
        core = AffineExpr.dimension(0)
        slice = (core // self.digit.stride) % self.digit.split
        all_cores = box_set([self.cores])
        return AffineSet(1, 0, (*all_cores.constraints, _equals_zero(slice)))

    @property
    def members(self) -> AffineSet:
        """The cores of the group whose id is the symbol."""
        distance = AffineExpr.dimension(0) - AffineExpr.symbol(0)
        stride = self.digit.stride
        last = stride * (self.digit.split - 1)
        constraints = [_is_nonnegative(distance), _is_nonnegative(-distance + last)]
        if stride > 1:
            constraints.append(_equals_zero(distance % stride))
        return AffineSet(1, 1, tuple(constraints))

    @property
    def first_members(self) -> AffineSet:
        """The first core of the group whose id is the symbol."""
        return AffineSet(1, 1, (_equals_zero(AffineExpr.dimension(0) - AffineExpr.symbol(0)),))


def _equals_zero(expression: AffineExpr) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.eq, expression, AffineExpr.constant(0))


def _is_nonnegative(expression: AffineExpr) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.ge, expression, AffineExpr.constant(0))


def reduce_across_cores(
    emitter: Emitter, groups: CoreGroups, partial: SSAValue, identity: SSAValue, combine: Combine
) -> SSAValue:
    """Emit the combination of a group's partial results; only its first core receives it."""
    future_type = TileFutureType([partial.type], groups.groups)
    produced = Block([YieldPartialOp(partial)], arg_types=[IndexType()])
    future = emitter.add(InterTileProduceOp(groups.members, future_type, Region(produced)))
    block = Block(arg_types=[partial.type, partial.type])
    reduced = combine(*block.args)
    block.add_ops([reduced, YieldReducedOp(reduced.results[0])])
    return emitter.add(
        InterTileReduceOp(
            future,
            groups.first_members,
            [partial.type],
            identities=[identity],
            combiner=Region(block),
        )
    )

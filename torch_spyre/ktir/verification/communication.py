"""Verify communication between cores, core by core where grid and groups are static."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineSet
from xdsl.utils.exceptions import VerifyException

from torch_spyre.ktir.affine import contains, points
from torch_spyre.ktir.dialects.ktdp import (
    DeliveryOperation,
    InterTileAllToAllOp,
    InterTileConsumeOp,
    InterTileGatherOp,
    InterTileProduceOp,
    InterTileReduceOp,
    InterTileReduceScatterOp,
    InterTileScatterOp,
    ReductionOperation,
    TileFutureType,
)
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.verification.report import warn_at

# With more cores or groups the per-core checks below would be too expensive.
_MAX_CORES = 1024


def verify_communication(
    operation: Operation, grid: tuple[int, int, int], source: Source | None, *, strict: bool
) -> None:
    """Verify a produce or delivery op; other ops are ignored."""
    if not isinstance(operation, InterTileProduceOp | DeliveryOperation):
        return
    _verify_ancestors(operation)
    cores = math.prod(grid)
    if cores > _MAX_CORES:
        return
    if isinstance(operation, InterTileProduceOp):
        if not operation.future.uses:
            warn_at(operation, "this future is never used", source)
        _verify_producers(operation, cores)
    elif isinstance(operation.future.owner, InterTileProduceOp):
        _Delivery.resolve(operation, operation.future.owner, cores).verify(strict)


def _verify_ancestors(operation: Operation) -> None:
    parent = operation.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if not isinstance(parent, scf.ForOp | scf.IfOp):
            raise VerifyException(f"communication ops are not allowed inside {parent.name}")
        parent = parent.parent_op()


def _group_ids(future_type: TileFutureType) -> list[int]:
    groups = points(future_type.groups)
    if len(groups) > _MAX_CORES:
        raise VerifyException(f"{len(groups)} groups; the limit is {_MAX_CORES}")
    return [int(group) for group in groups[:, 0]]


def _members(cores_set: AffineSet, cores: int, symbols: Sequence[int]) -> NDArray[np.bool_]:
    """Return for every core whether the set contains it, given the values of its symbols."""
    candidates = np.arange(cores, dtype=np.int64)[:, None]
    return contains(cores_set, candidates, symbols[: cores_set.num_symbols])


def _verify_producers(operation: InterTileProduceOp, cores: int) -> None:
    producers = operation.producer_tiles_per_group.data
    groups = _group_ids(operation.future.type)
    memberships = sum(
        (_members(producers, cores, [group]).astype(np.int64) for group in groups),
        np.zeros(cores, np.int64),
    )
    repeated = np.flatnonzero(memberships > 1)
    if len(repeated):
        raise VerifyException(f"core {repeated[0]} is in {memberships[repeated[0]]} groups")
    ungrouped = np.flatnonzero(memberships == 0)
    is_reduced = any(isinstance(use.operation, ReductionOperation) for use in operation.future.uses)
    if len(ungrouped) and is_reduced and not _is_conditional(operation):
        raise VerifyException(f"core {ungrouped[0]} is in no group")


def _is_conditional(operation: Operation) -> bool:
    parent = operation.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp):
            return True
        parent = parent.parent_op()
    return False


@dataclass(frozen=True)
class _Group:
    """The cores of one group, and for each consumer the producers it receives from."""

    id: int
    producers: NDArray[np.bool_]
    consumers: NDArray[np.bool_]
    received: list[NDArray[np.bool_]]


@dataclass(frozen=True)
class _Delivery:
    """A delivery op with the producers and consumers of its groups, listed core by core."""

    operation: DeliveryOperation
    groups: list[_Group]

    @staticmethod
    def resolve(
        operation: DeliveryOperation, produce: InterTileProduceOp, cores: int
    ) -> "_Delivery":
        groups = []
        for group in _group_ids(operation.future_type):
            producers = _members(produce.producer_tiles_per_group.data, cores, [group])
            consumers = _members(operation.consumer_tiles_per_group.data, cores, [group])
            received = [producers] * int(consumers.sum())
            dependency = operation.producer_dependency_per_consumer
            if dependency is not None:
                received = [
                    _members(dependency.data, cores, [int(consumer), group])
                    for consumer in np.flatnonzero(consumers)
                ]
            groups.append(_Group(group, producers, consumers, received))
        return _Delivery(operation, groups)

    def verify(self, strict: bool) -> None:
        for group in self.groups:
            self._verify_dependency(group)
        match self.operation:
            case InterTileConsumeOp():
                self._verify_consume()
            case InterTileReduceOp() if strict:
                self._verify_front_end_reduce()
            case InterTileReduceScatterOp():
                self._verify_shapes("scatter_dimensions", None)
            case InterTileGatherOp():
                self._verify_disjoint_sources()
                self._verify_shapes(None, "gather_dimensions")
            case InterTileAllToAllOp():
                self._verify_disjoint_sources()
                self._verify_shapes("split_dimensions", "concat_dimensions")
            case InterTileScatterOp():
                self._verify_one_producer()
                self._verify_shapes("scatter_dimensions", None)

    def _verify_dependency(self, group: _Group) -> None:
        if self.operation.producer_dependency_per_consumer is None or not group.received:
            return
        used = np.logical_or.reduce(group.received)
        foreign = np.flatnonzero(used & ~group.producers)
        if len(foreign):
            raise VerifyException(
                f"producer_dependency_per_consumer names core {foreign[0]}, which does not "
                f"produce for group {group.id}"
            )
        unused = np.flatnonzero(group.producers & ~used)
        if len(unused):
            raise VerifyException(
                f"no consumer of group {group.id} receives from producer {unused[0]}"
            )

    def _verify_consume(self) -> None:
        for group in self.groups:
            for sources in group.received:
                if int(sources.sum()) != 1:
                    raise VerifyException(
                        f"a consumer of group {group.id} has {int(sources.sum())} producers; "
                        "producer_dependency_per_consumer must leave it one"
                    )

    def _verify_front_end_reduce(self) -> None:
        for group in self.groups:
            if (group.consumers & ~group.producers).any():
                raise VerifyException(f"a consumer of group {group.id} is no producer of it")
            is_all = bool((group.consumers == group.producers).all())
            if not is_all and int(group.consumers.sum()) != 1:
                raise VerifyException(
                    f"the consumers of group {group.id} are neither all its producers nor one core"
                )
        for result, partial in zip(
            self.operation.delivered, self.operation.future_type.partials, strict=True
        ):
            if result.type != partial:
                raise VerifyException(f"result {result.type} differs from partial {partial}")

    def _verify_one_producer(self) -> None:
        for group in self.groups:
            if int(group.producers.sum()) != 1:
                raise VerifyException(
                    f"group {group.id} has {int(group.producers.sum())} producers, and a scatter "
                    "has one"
                )

    def _verify_disjoint_sources(self) -> None:
        """Verify that with a dependency set, no two consumers receive from one producer."""
        if self.operation.producer_dependency_per_consumer is None:
            return
        for group in self.groups:
            if group.received and np.sum(group.received, axis=0).max() > 1:
                raise VerifyException(f"two consumers of group {group.id} share a producer")

    def _verify_shapes(self, split: str | None, concat: str | None) -> None:
        consumers = {int(group.consumers.sum()) for group in self.groups}
        sources = {int(producers.sum()) for group in self.groups for producers in group.received}
        for counts, role in ((consumers, "consumers"), (sources, "producers per consumer")):
            if len(counts) > 1:
                raise VerifyException(f"groups differ in their {role}: {sorted(counts)}")
        if not consumers or not sources:
            return
        split_axes = self.operation.axes(split) if split is not None else ()
        concat_axes = self.operation.axes(concat) if concat is not None else ()
        partials = self.operation.future_type.partials
        for result, partial in zip(self.operation.delivered, partials, strict=True):
            _verify_result(
                result.type, partial, split_axes, min(consumers), concat_axes, min(sources)
            )


def _verify_result(
    result: Attribute,
    partial: Attribute,
    split_axes: Sequence[int],
    consumers: int,
    concat_axes: Sequence[int],
    producers: int,
) -> None:
    """Verify the result shape: split axes are divided by the number of consumers, concatenated
    axes are multiplied by the number of producers.
    """
    assert isinstance(result, TensorType) and isinstance(partial, TensorType)
    before, after = partial.get_shape(), result.get_shape()
    if DYNAMIC_INDEX in before or DYNAMIC_INDEX in after:
        return
    if len(before) != len(after) or result.element_type != partial.element_type:
        raise VerifyException(f"result {result} cannot be assembled from {partial}")
    only_split = set(split_axes) - set(concat_axes)
    only_concat = set(concat_axes) - set(split_axes)
    if split_axes and math.prod(before[axis] for axis in split_axes) % consumers:
        raise VerifyException(f"{partial} cannot be split among {consumers} consumers")
    for axes, factor in ((only_split, (1, consumers)), (only_concat, (producers, 1))):
        multiplied, divided = factor
        size_before = math.prod(before[axis] for axis in axes) * multiplied
        size_after = math.prod(after[axis] for axis in axes) * divided
        if axes and not set(split_axes) & set(concat_axes) and size_before != size_after:
            raise VerifyException(
                f"result {result} does not follow from {partial}, {consumers} consumers and "
                f"{producers} producers each"
            )
    changed_axes = set(split_axes) | set(concat_axes)
    factor_before = producers if concat_axes else 1
    factor_after = consumers if split_axes else 1
    same = all(before[axis] == after[axis] for axis in set(range(len(before))) - changed_axes)
    if not same or math.prod(before) * factor_before != math.prod(after) * factor_after:
        raise VerifyException(
            f"result {result} does not follow from {partial}, {consumers} consumers and "
            f"{producers} producers each"
        )

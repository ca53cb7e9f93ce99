"""Divides the specs of a program over cores: all alike, for they share their tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table import record_of
from torch_spyre._inductor.to_ktir.plan import Space, divisible_share, is_matmul, space_of
from torch_spyre._inductor.work_division import check_span_limit, divide
from torch_spyre.cards import CardDescription, usable_cores


def divided(specs: Sequence[OpSpec], card: CardDescription) -> list[OpSpec]:
    """The specs with splits. The one with most work decides; the others follow."""
    space = space_of(specs)
    multi_loop = multi_loop_op_of(specs)
    if multi_loop is not None:
        return _with_splits(specs, multi_loop.core_splits(specs, space, usable_cores(card)))
    leader = _shareable(specs, space)
    shared = frozenset() if leader is None else space.reduced
    if leader is None:
        leader = max(specs, key=lambda spec: (is_matmul(spec), prod(spec.sizes.values())))
    splits = divide(_restricted(leader, specs, space, shared), card)
    found = _with_splits(specs, _legal(space, splits))
    for spec in found:
        # The leader neither has all tensors, nor always gets the splits that it was given.
        check_span_limit(spec, card)
    return found


def _with_splits(specs: Sequence[OpSpec], splits: Mapping[Symbol, int]) -> list[OpSpec]:
    return [
        replace(
            spec,
            iteration_space={
                symbol: (size, splits.get(symbol, 1))
                for symbol, (size, _) in spec.iteration_space.items()
            },
        )
        for spec in specs
    ]


def _shareable(specs: Sequence[OpSpec], space: Space) -> OpSpec | None:
    """The op that folds, if cores may do it together and one of them all that follows."""
    folding = [spec for spec in specs if spec.is_reduction]
    if len(folding) != 1:
        return None
    (fold,) = folding
    rule = record_of(fold.op).reduction
    if rule is None or not rule.is_combinable:
        return None
    position = specs.index(fold)
    for spec in specs[:position]:
        # On the way to the fold, in slices like it.
        if not spec.output.in_scratchpad or not set(spec.sizes) & space.reduced:
            return None
    results = {fold.output.name}
    for spec in specs[position + 1 :]:
        waits = any(arg.in_scratchpad and arg.name in results for arg in spec.inputs)
        if not waits or set(spec.sizes) & space.reduced or not set(spec.sizes) <= set(fold.sizes):
            return None
        results.add(spec.output.name)
    return fold


def _restricted(
    leader: OpSpec, specs: Sequence[OpSpec], space: Space, shared: frozenset[Symbol]
) -> OpSpec:
    """Symbols must stay whole that some op folds, or that some result in memory does not have.

    But for shared ones: cores combine what they fold of these. Others run along one stick of some
    tensor, which the leader need not know.
    """
    whole = set(space.reduced) - shared
    whole |= {symbol for symbol in space.sizes if divisible_share(space, symbol) == 1}
    for spec in specs:
        if not spec.output.in_scratchpad:
            whole |= set(space.sizes) - space.accesses[spec.output].symbols - shared
        if spec.op_info.get("partial"):
            whole |= space.accesses[spec.output].stick_symbols
        if space.accesses[spec.output].boxes is None:
            whole |= _entangled(spec.output)
    names = [symbol.name for symbol in leader.iteration_space if symbol in whole]
    return replace(leader, op_info={**leader.op_info, "unsplittable": names})


def _entangled(output: TensorArg) -> set[Symbol]:
    """Symbols that do not say alone which index of a dim is written: cores would share sticks."""
    inside, lane = output.device_coordinates[:-1], output.device_coordinates[-1]
    found = set(lane.free_symbols)
    return found.union(*(each.free_symbols for each in inside if not each.is_Symbol))


def _legal(space: Space, splits: Mapping[Symbol, int]) -> dict[Symbol, int]:
    """Splits whose shares are whole sticks of every tensor of the group."""
    found: dict[Symbol, int] = {}
    for symbol, split in splits.items():
        units = divisible_share(space, symbol)
        while units % split:
            split = gcd(units, split) if gcd(units, split) > 1 else 1
        found[symbol] = split
    return found

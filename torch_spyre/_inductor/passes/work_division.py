"""Divides the specs of a program over cores. All get the same splits, since they share tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from sympy import Symbol

from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table import record_of
from torch_spyre._inductor.tiling.iteration_space import IterationSpace
from torch_spyre._inductor.tiling.tile_plan import is_matmul
from torch_spyre._inductor.work_division import check_span_limit, divide
from torch_spyre.cards import CardDescription, usable_cores


def divided(
    specs: Sequence[OpSpec],
    card: CardDescription,
    dynamic: frozenset[Symbol] = frozenset(),
) -> list[OpSpec]:
    """Return the specs with splits, chosen for the spec with most work.

    `dynamic` are the symbols whose sizes are known at launch; the specs have their largest sizes.
    """
    space = IterationSpace.from_specs(specs, dynamic)
    multi_loop = multi_loop_op_of(specs)
    if multi_loop is not None:
        return _with_splits(specs, multi_loop.core_splits(specs, space, usable_cores(card)))
    leader = _combinable_reduction(specs, space)
    if leader is not None and space.accesses[leader.output].symbols & dynamic:
        leader = None  # cores exchange tiles of one size only
    shared = frozenset() if leader is None else space.reduced
    if leader is None:
        leader = max(specs, key=lambda spec: (is_matmul(spec), prod(spec.sizes.values())))
    splits = divide(_restricted(leader, specs, space, shared), card)
    result = _with_splits(specs, _legal_splits(space, splits))
    for spec in result:
        # Other specs have tensors that the leader lacks, and legal splits may be smaller.
        check_span_limit(spec, card)
    return result


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


def _combinable_reduction(specs: Sequence[OpSpec], space: IterationSpace) -> OpSpec | None:
    """Return the only reduction, if cores can reduce slices and one can run the ops after it."""
    reductions = [spec for spec in specs if spec.is_reduction]
    if len(reductions) != 1:
        return None
    (reduction,) = reductions
    rule = record_of(reduction.op).reduction
    if rule is None or not rule.is_combinable:
        return None
    position = specs.index(reduction)
    for spec in specs[:position]:
        # Specs before the reduction compute its input, in the same slices.
        if not spec.output.in_scratchpad or not set(spec.sizes) & space.reduced:
            return None
    results = {reduction.output.name}
    for spec in specs[position + 1 :]:
        symbols = set(spec.sizes)
        reads_result = any(arg.in_scratchpad and arg.name in results for arg in spec.inputs)
        if not reads_result or symbols & space.reduced or not symbols <= set(reduction.sizes):
            return None
        results.add(spec.output.name)
    return reduction


def _restricted(
    leader: OpSpec, specs: Sequence[OpSpec], space: IterationSpace, shared: frozenset[Symbol]
) -> OpSpec:
    """Return the leader with the symbols that must not be split listed in `op_info`.

    These are reduced symbols, symbols that a result in memory does not have, and symbols within
    one stick of some tensor. Symbols of `shared` can be split: cores combine their reductions.
    """
    unsplittable = set(space.reduced) - shared
    unsplittable |= {symbol for symbol in space.sizes if space.num_units(symbol) == 1}
    for spec in specs:
        if not spec.output.in_scratchpad:
            unsplittable |= set(space.sizes) - space.accesses[spec.output].symbols - shared
        if spec.op_info.get("partial"):
            unsplittable |= space.accesses[spec.output].stick_symbols
        if space.accesses[spec.output].boxes is None:
            unsplittable |= _coupled_symbols(spec.output)
    names = [symbol.name for symbol in leader.iteration_space if symbol in unsplittable]
    return replace(leader, op_info={**leader.op_info, "unsplittable": names})


def _coupled_symbols(output: TensorArg) -> set[Symbol]:
    """Return the symbols that share a device coordinate: slices of one would share sticks."""
    outer, lane = output.device_coordinates[:-1], output.device_coordinates[-1]
    coupled = [index.free_symbols for index in outer if not index.is_Symbol]
    return set(lane.free_symbols).union(*coupled)


def _legal_splits(space: IterationSpace, splits: Mapping[Symbol, int]) -> dict[Symbol, int]:
    """Reduce the splits until their slices are whole sticks of every tensor of the group."""
    legal: dict[Symbol, int] = {}
    for symbol, split in splits.items():
        units = space.num_units(symbol)
        while units % split:
            split = gcd(units, split) if gcd(units, split) > 1 else 1
        legal[symbol] = split
    return legal

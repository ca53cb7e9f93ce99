"""Divides the specs of a program over cores: all alike, for they share their tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from sympy import Symbol

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.to_ktir.plan import divisible_share, is_product, space_of
from torch_spyre._inductor.work_division import divide


def divided(specs: Sequence[OpSpec]) -> list[OpSpec]:
    """The specs with splits. The one with most work decides; the others follow."""
    leader = max(specs, key=lambda spec: (is_product(spec), prod(spec.sizes.values())))
    splits = divide(_restricted(leader, specs))
    splits = _legal(specs, splits)
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


def _restricted(leader: OpSpec, specs: Sequence[OpSpec]) -> OpSpec:
    """Symbols must stay whole that some op folds, or that some result in memory does not have."""
    space = space_of(specs)
    whole = set(space.folded)
    for spec in specs:
        if not spec.output.in_scratchpad:
            whole |= set(space.sizes) - space.accesses[spec.output].symbols
        if spec.op_info.get("partial"):
            whole |= space.accesses[spec.output].stick_symbols
        for arg in spec.args:
            if space.accesses[arg].boxes is None and not arg.is_input:
                whole |= space.accesses[arg].symbols
    names = [symbol.name for symbol in leader.iteration_space if symbol in whole]
    return replace(leader, op_info={**leader.op_info, "unsplittable": names})


def _legal(specs: Sequence[OpSpec], splits: Mapping[Symbol, int]) -> dict[Symbol, int]:
    """Splits whose shares are whole sticks of every tensor of the group."""
    space = space_of(specs)
    found: dict[Symbol, int] = {}
    for symbol, split in splits.items():
        units = divisible_share(space, symbol)
        while units % split:
            split = gcd(units, split) if gcd(units, split) > 1 else 1
        found[symbol] = split
    return found

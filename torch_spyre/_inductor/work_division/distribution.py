"""Third pass: splits the largest dims over the remaining cores."""

from collections.abc import Sequence
from math import prod

import sympy

from torch_spyre._inductor.work_division.problem import Problem, Splits
from torch_spyre._inductor.work_division.rules import LegalSplits
from torch_spyre.errors import WorkDivisionError


def distribute(
    problem: Problem,
    legal: LegalSplits,
    floors: Splits,
    *,
    idle_share_before_reductions: float = 0.0,
) -> dict[sympy.Symbol, int]:
    """Return splits that use as many cores as possible, starting from `floors`.

    Output dims are split first, the largest of them first; then at most one reduction dim.

    The reduction dim is split only if more than `idle_share_before_reductions` of the cores would
    be idle otherwise: 0 splits it whenever a core is idle, 0.5 when more than half of them are.
    """
    splits = dict(floors)
    if prod(splits.values()) > problem.cores:
        needed = ", ".join(f"{symbol}={split}" for symbol, split in splits.items() if split > 1)
        raise WorkDivisionError(
            problem.spec.op,
            f"it needs at least the splits {needed}, which use {prod(splits.values())} cores, but "
            f"SENCORES={problem.cores} allows only {problem.cores}",
        )
    for symbol in _largest_first(problem, problem.output_dims):
        splits[symbol] = _largest_split(problem, legal, splits, symbol)
    idle = 1 - prod(splits.values()) / problem.cores
    if idle > idle_share_before_reductions:
        _split_one_reduction(problem, legal, splits)
    return splits


def _split_one_reduction(
    problem: Problem, legal: LegalSplits, splits: dict[sympy.Symbol, int]
) -> None:
    # A reduction dim that span reduction has split must stay the only one.
    committed = [symbol for symbol in problem.reduction_dims if splits[symbol] > 1]
    candidates = _largest_first(problem, committed or problem.reduction_dims)
    if not candidates:
        return
    best = max(candidates, key=lambda symbol: _largest_split(problem, legal, splits, symbol))
    splits[best] = _largest_split(problem, legal, splits, best)


def _largest_first(problem: Problem, symbols: Sequence[sympy.Symbol]) -> list[sympy.Symbol]:
    return sorted(symbols, key=lambda symbol: -problem.units[symbol])


def _largest_split(
    problem: Problem, legal: LegalSplits, splits: Splits, symbol: sympy.Symbol
) -> int:
    """Return the largest legal split of a symbol for which there are enough cores."""
    current = splits[symbol]
    limit = problem.cores * current // prod(splits.values())
    return max(
        split for split in legal.splits[symbol] if split == current or current < split <= limit
    )

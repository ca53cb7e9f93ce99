"""Which splits of an op are legal: rules, each of which looks at one danger.

A rule gives symbols that must stay whole, or the splits a symbol may have. All passes, and hints,
choose among what every rule leaves. To add one, write a function and list it in `RULES`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg
from torch_spyre._inductor.work_division.arithmetic import divisors
from torch_spyre._inductor.work_division.expressions import (
    cuts,
    index_tensors,
    is_indirect,
    overlapping,
    symbols_of,
)
from torch_spyre._inductor.work_division.problem import Problem
from torch_spyre.errors import WorkDivisionError

MOST_RESULTS_OF_TOPK = 4
"""Entries that one core can find at once."""


@dataclass(frozen=True)
class Constraints:
    """Symbols that must not be split, and the splits that others are confined to."""

    blocked: frozenset[sympy.Symbol] = frozenset()
    allowed: Mapping[sympy.Symbol, frozenset[int]] = field(default_factory=dict)


Rule = Callable[[Problem], Constraints]


def block(symbols: Iterable[sympy.Symbol]) -> Constraints:
    return Constraints(blocked=frozenset(symbols))


def unsplittable(problem: Problem) -> Constraints:
    """The op says so itself: `op_info["unsplittable"]` names symbols."""
    names: Sequence[str] = problem.spec.op_info.get("unsplittable", ())
    by_name = {str(symbol): symbol for symbol in problem.symbols}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise WorkDivisionError(
            problem.spec.op,
            f'op_info["unsplittable"] names {", ".join(unknown)}, and its symbols are '
            f"{', '.join(by_name)}",
        )
    return block(by_name[name] for name in names)


def whole_sticks_written(problem: Problem) -> Constraints:
    """Two cores must not write parts of one stick.

    Splits of the output's stick variable are whole sticks unless something is added to it within
    the stick: an offset that is no multiple of a stick, or a second symbol. Where data decide the
    place in the stick, any two entries may meet in one.
    """
    output = problem.spec.output
    inside = sympy.sympify(output.device_coordinates[-1])
    if inside.has(IndirectAccess):
        return block(problem.entries)
    symbols = symbols_of(inside)
    aligned = len(symbols) == 1 and inside in (
        *symbols,
        *(sympy.Mod(symbol, output.elements_per_stick) for symbol in symbols),
    )
    return block(()) if aligned else block(symbols)


def one_writer(problem: Problem) -> Constraints:
    """A dim that the output does not have is split only where cores combine: in reductions."""
    return block(()) if problem.spec.is_reduction else block(problem.reduction_dims)


def coordinate_mask(problem: Problem) -> Constraints:
    """What lies beyond the end in the last stick is masked, and a mask cannot span cores."""
    return block(
        symbol
        for symbol in problem.reduction_dims
        if problem.sizes[symbol] % problem.sticks.get(symbol, 1)
    )


def restickify_padding(problem: Problem) -> Constraints:
    """A restickify moves whole sticks: stick dims with a partial last one stay on one core."""
    if not problem.is_restickify:
        return block(())
    return block(
        symbol for symbol, elements in problem.sticks.items() if problem.sizes[symbol] % elements
    )


def topk(problem: Problem) -> Constraints:
    """The searched dim is whole on a core, and a core finds at most four of the k entries."""
    if not problem.is_topk:
        return block(())
    read = {
        symbol
        for tensor in problem.spec.inputs
        for coordinate in tensor.device_coordinates
        for symbol in symbols_of(coordinate)
    }
    forced = {}
    for symbol in problem.symbols:
        if symbol in read or symbol not in problem.written:
            continue
        size = problem.sizes[symbol]
        fitting = (
            split
            for split in divisors(problem.divisible[symbol])
            if size <= MOST_RESULTS_OF_TOPK * split
        )
        forced[symbol] = frozenset({split} if (split := next(fitting, None)) else ())
    return Constraints(frozenset(problem.reduction_dims), forced)


def indirect_access(problem: Problem) -> Constraints:
    """A table is shared by all cores at one address: of gather and scatter, only entries are split.

    A gather may split a partial last stick of entries if the output has room for all of it. A
    scatter has no such room, and is not divided at all where it accumulates
    (`op_info["accumulate"]`) or where several index tensors say where it writes.
    """
    tables = [tensor for tensor in problem.spec.args if is_indirect(tensor)]
    if not tables:
        return block(())
    output = problem.spec.output
    scatters = is_indirect(output)
    if scatters and (problem.spec.op_info.get("accumulate") or len(index_tensors(output)) > 1):
        return block(problem.symbols)
    blocked = {
        symbol
        for table in tables
        for coordinate in table.device_coordinates
        for symbol in symbols_of(coordinate)
    }
    for symbol in problem.entries & problem.sticks.keys():
        partial = problem.sizes[symbol] % problem.sticks[symbol]
        if partial and (scatters or not _has_room(problem, output, symbol)):
            blocked.add(symbol)
    return block(blocked)


def _has_room(problem: Problem, output: TensorArg, symbol: sympy.Symbol) -> bool:
    if symbol in symbols_of(output.device_coordinates[-1]):
        return True  # its last stick is there as a whole
    padded = problem.units[symbol] * problem.sticks[symbol]
    return any(
        coordinate == symbol and size >= padded
        for size, coordinate in zip(output.device_size, output.device_coordinates, strict=True)
    )


def aligned_ownership(problem: Problem) -> Constraints:
    """A core's part of every tensor is one block: floors and moduli must not cut it.

    Reading `x[i mod 2]` over 6 rows leaves 3 and 6: halves would begin in the middle of a pair.
    """
    blocks: dict[sympy.Symbol, set[int]] = {}
    broken: set[sympy.Symbol] = set()
    for tensor in problem.spec.args:
        for coordinate in tensor.device_coordinates:
            for symbol, elements in cuts(coordinate):
                if elements.denominator != 1:
                    broken.add(symbol)
                elif 1 < elements < problem.sizes[symbol]:
                    blocks.setdefault(symbol, set()).add(int(elements))

    def fits(symbol: sympy.Symbol, split: int) -> bool:
        units = problem.units[symbol] // split
        share = units * problem.sticks.get(symbol, 1)
        return split == 1 or all(share % each == 0 or each % share == 0 for each in blocks[symbol])

    allowed = {
        symbol: frozenset(
            split
            for split in divisors(problem.divisible[symbol], problem.cores)
            if fits(symbol, split)
        )
        for symbol in blocks
    }
    return Constraints(frozenset(broken), allowed)


def single_reduction(problem: Problem) -> Constraints:
    """Cores combine along one dim only; of a plain reduction over several, none is split."""
    if problem.is_matmul or not problem.spec.is_reduction:
        return block(())
    reduced = [symbol for symbol in problem.reduction_dims if problem.sizes[symbol] > 1]
    return block(reduced if len(reduced) > 1 else ())


def overlapping_windows(problem: Problem) -> Constraints:
    """Symbols that sweep overlapping parts of a dim, as windows with a step below their size do.

    The part that belongs to a slice is then no even share of the dim.
    """
    last = {symbol: size - 1 for symbol, size in problem.sizes.items()}
    return block(
        symbol
        for tensor in problem.spec.args
        for coordinate in tensor.device_coordinates
        for symbol in overlapping(coordinate, last)
    )


RULES: tuple[Rule, ...] = (
    unsplittable,
    whole_sticks_written,
    one_writer,
    coordinate_mask,
    restickify_padding,
    topk,
    indirect_access,
    aligned_ownership,
    single_reduction,
    overlapping_windows,
)


@dataclass(frozen=True)
class LegalSplits:
    """What the rules leave: for each symbol its splits in ascending order, none above the cores."""

    splits: Mapping[sympy.Symbol, tuple[int, ...]]
    # Names of the rules that took something away, for messages.
    limited_by: Mapping[sympy.Symbol, tuple[str, ...]]

    @property
    def least(self) -> dict[sympy.Symbol, int]:
        return {symbol: splits[0] for symbol, splits in self.splits.items()}

    def reason(self, symbol: sympy.Symbol) -> str:
        names = self.limited_by.get(symbol, ())
        return f" (limited by {', '.join(names)})" if names else ""


def legal_splits(problem: Problem, rules: Sequence[Rule] = RULES) -> LegalSplits:
    legal = {
        symbol: set(divisors(problem.divisible[symbol], problem.cores))
        for symbol in problem.symbols
    }
    limited_by: dict[sympy.Symbol, tuple[str, ...]] = {}
    for rule in rules:
        constraints = rule(problem)
        only = {symbol: frozenset({1}) for symbol in constraints.blocked}
        for symbol, allowed in (*constraints.allowed.items(), *only.items()):
            if legal[symbol] <= allowed:
                continue
            legal[symbol] &= allowed
            limited_by[symbol] = (*limited_by.get(symbol, ()), rule.__name__)
    for symbol, splits in legal.items():
        if not splits:
            raise WorkDivisionError(
                problem.spec.op,
                f"no number of cores up to {problem.cores} may share {symbol} of size "
                f"{problem.sizes[symbol]}; rules that limit it: "
                f"{', '.join(limited_by[symbol])}",
            )
    return LegalSplits({s: tuple(sorted(splits)) for s, splits in legal.items()}, limited_by)

"""Rules that decide which splits of an op are legal, one for each hazard.

A rule returns symbols that must not be split, or the splits that a symbol may have. Passes and
hints choose among the splits that every rule allows. To add a rule, write a function and list it
in `RULES`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess, TensorArg
from torch_spyre._inductor.work_division.arithmetic import divisors
from torch_spyre._inductor.work_division.expressions import (
    block_sizes,
    index_tensors,
    is_indirect,
    overlapping_symbols,
    symbols_of,
)
from torch_spyre._inductor.work_division.problem import Problem
from torch_spyre.errors import WorkDivisionError

MAX_TOPK_RESULTS = 4
"""The number of results that a topk op can find on one core."""


@dataclass(frozen=True)
class Constraints:
    """Symbols that must not be split, and the splits that further symbols are limited to."""

    blocked: frozenset[sympy.Symbol] = frozenset()
    allowed: Mapping[sympy.Symbol, frozenset[int]] = field(default_factory=dict)


Rule = Callable[[Problem], Constraints]


def block(symbols: Iterable[sympy.Symbol]) -> Constraints:
    """Return constraints that forbid splitting these symbols."""
    return Constraints(blocked=frozenset(symbols))


def unsplittable(problem: Problem) -> Constraints:
    """Block the symbols that `op_info["unsplittable"]` names."""
    names: Sequence[str] = problem.spec.op_info.get("unsplittable", ())
    by_name = {str(symbol): symbol for symbol in problem.symbols}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise WorkDivisionError(
            problem.spec.op,
            f'op_info["unsplittable"] names {", ".join(unknown)}, but its symbols are '
            f"{', '.join(by_name)}",
        )
    return block(by_name[name] for name in names)


def whole_sticks_written(problem: Problem) -> Constraints:
    """Keep two cores from writing parts of one stick.

    Slices of the output's stick variable are whole sticks unless the coordinate within the stick
    also has an offset that is not a multiple of a stick, or a second symbol. If the index inside
    the stick depends on data, any two entries may write the same stick.
    """
    output = problem.spec.output
    lane = sympy.sympify(output.device_coordinates[-1])
    if lane.has(IndirectAccess):
        return block(problem.index_symbols)
    symbols = symbols_of(lane)
    is_aligned = len(symbols) == 1 and lane in (
        *symbols,
        *(sympy.Mod(symbol, output.elements_per_stick) for symbol in symbols),
    )
    return block(()) if is_aligned else block(symbols)


def one_writer(problem: Problem) -> Constraints:
    """Allow splits of dims that the output lacks only where cores combine: in reductions."""
    return block(()) if problem.spec.is_reduction else block(problem.reduction_dims)


def coordinate_mask(problem: Problem) -> Constraints:
    """Block reduced dims with a partial last stick: it is masked, and a mask cannot span cores."""
    return block(
        symbol
        for symbol in problem.reduction_dims
        if problem.sizes[symbol] % problem.stick_elements.get(symbol, 1)
    )


def restickify_padding(problem: Problem) -> Constraints:
    """Block stick dims with a partial last stick in a restickify, which moves whole sticks."""
    if not problem.is_restickify:
        return block(())
    return block(
        symbol
        for symbol, elements in problem.stick_elements.items()
        if problem.sizes[symbol] % elements
    )


def topk(problem: Problem) -> Constraints:
    """Block the searched dim, and split the k dim so that a core has at most four results."""
    if not problem.is_topk:
        return block(())
    input_symbols = {
        symbol
        for tensor in problem.spec.inputs
        for coordinate in tensor.device_coordinates
        for symbol in symbols_of(coordinate)
    }
    forced = {}
    for symbol in problem.symbols:
        if symbol in input_symbols or symbol not in problem.output_symbols:
            continue
        size = problem.sizes[symbol]
        fitting = (
            split
            for split in divisors(problem.divisible[symbol])
            if size <= MAX_TOPK_RESULTS * split
        )
        forced[symbol] = frozenset({split} if (split := next(fitting, None)) else ())
    return Constraints(frozenset(problem.reduction_dims), forced)


def indirect_access(problem: Problem) -> Constraints:
    """Allow splits of gathers and scatters only along the entries of their index tensors.

    All cores access a table at one address. A gather may split a partial last stick of entries if
    the output has memory for all of it. A scatter has none, and is not divided at all if it
    accumulates (`op_info["accumulate"]`) or writes through several index tensors.
    """
    tables = [tensor for tensor in problem.spec.args if is_indirect(tensor)]
    if not tables:
        return block(())
    output = problem.spec.output
    is_scatter = is_indirect(output)
    if is_scatter and (problem.spec.op_info.get("accumulate") or len(index_tensors(output)) > 1):
        return block(problem.symbols)
    blocked = {
        symbol
        for table in tables
        for coordinate in table.device_coordinates
        for symbol in symbols_of(coordinate)
    }
    for symbol in problem.index_symbols & problem.stick_elements.keys():
        has_partial_stick = problem.sizes[symbol] % problem.stick_elements[symbol] != 0
        if has_partial_stick and (is_scatter or not _holds_whole_sticks(problem, output, symbol)):
            blocked.add(symbol)
    return block(blocked)


def _holds_whole_sticks(problem: Problem, output: TensorArg, symbol: sympy.Symbol) -> bool:
    if symbol in symbols_of(output.device_coordinates[-1]):
        return True  # along sticks, memory ends with a whole stick
    padded = problem.units[symbol] * problem.stick_elements[symbol]
    return any(
        coordinate == symbol and size >= padded
        for size, coordinate in zip(output.device_size, output.device_coordinates, strict=True)
    )


def aligned_ownership(problem: Problem) -> Constraints:
    """Allow splits whose slices align with the blocks of floors and moduli in coordinates.

    Reading `x[i mod 2]` over 6 rows allows 3 and 6: halves would begin in the middle of a pair.
    """
    blocks: dict[sympy.Symbol, set[int]] = {}
    unaligned: set[sympy.Symbol] = set()
    for tensor in problem.spec.args:
        for coordinate in tensor.device_coordinates:
            for symbol, elements in block_sizes(coordinate):
                if elements.denominator != 1:
                    unaligned.add(symbol)
                elif 1 < elements < problem.sizes[symbol]:
                    blocks.setdefault(symbol, set()).add(int(elements))

    def is_aligned(symbol: sympy.Symbol, split: int) -> bool:
        units = problem.units[symbol] // split
        elements = units * problem.stick_elements.get(symbol, 1)
        return split == 1 or all(
            elements % block_size == 0 or block_size % elements == 0
            for block_size in blocks[symbol]
        )

    allowed = {
        symbol: frozenset(
            split
            for split in divisors(problem.divisible[symbol], problem.cores)
            if is_aligned(symbol, split)
        )
        for symbol in blocks
    }
    return Constraints(frozenset(unaligned), allowed)


def overlapping_windows(problem: Problem) -> Constraints:
    """Block symbols whose slices overlap in a dim, as windows with a step below their size do."""
    last = {symbol: size - 1 for symbol, size in problem.sizes.items()}
    return block(
        symbol
        for tensor in problem.spec.args
        for coordinate in tensor.device_coordinates
        for symbol in overlapping_symbols(coordinate, last)
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
    overlapping_windows,
)


@dataclass(frozen=True)
class LegalSplits:
    """The splits of every symbol that all rules allow, ascending, none above the cores."""

    splits: Mapping[sympy.Symbol, tuple[int, ...]]
    # Names of the rules that removed splits of a symbol, for messages.
    limited_by: Mapping[sympy.Symbol, tuple[str, ...]]

    @property
    def minimum(self) -> dict[sympy.Symbol, int]:
        """Return the smallest legal split of every symbol."""
        return {symbol: splits[0] for symbol, splits in self.splits.items()}

    def reason(self, symbol: sympy.Symbol) -> str:
        """Return the rules that limit a symbol as text in parentheses; empty if there are none."""
        names = self.limited_by.get(symbol, ())
        return f" (limited by {', '.join(names)})" if names else ""


def legal_splits(problem: Problem, rules: Sequence[Rule] = RULES) -> LegalSplits:
    """Return the splits that all rules allow. Raises if a symbol has none."""
    legal = {
        symbol: set(divisors(problem.divisible[symbol], problem.cores))
        for symbol in problem.symbols
    }
    limited_by: dict[sympy.Symbol, tuple[str, ...]] = {}
    for rule in rules:
        constraints = rule(problem)
        whole = {symbol: frozenset({1}) for symbol in constraints.blocked}
        for symbol, allowed in (*constraints.allowed.items(), *whole.items()):
            if legal[symbol] <= allowed:
                continue
            legal[symbol] &= allowed
            limited_by[symbol] = (*limited_by.get(symbol, ()), rule.__name__)
    for symbol, splits in legal.items():
        if not splits:
            raise WorkDivisionError(
                problem.spec.op,
                f"{symbol} of size {problem.sizes[symbol]} has no legal split for up to "
                f"{problem.cores} cores; the rules that limit it are "
                f"{', '.join(limited_by[symbol])}",
            )
    return LegalSplits({s: tuple(sorted(splits)) for s, splits in legal.items()}, limited_by)

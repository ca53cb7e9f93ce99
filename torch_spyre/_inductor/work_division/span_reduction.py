"""First pass: the fewest splits that bring every tensor within a core's window of addresses."""

from collections.abc import Iterator
from itertools import product
from math import prod

import sympy

from torch_spyre._inductor.op_spec import TensorArg
from torch_spyre._inductor.work_division.problem import Problem, Splits
from torch_spyre._inductor.work_division.rules import LegalSplits
from torch_spyre.errors import SpanLimitError, WorkDivisionError
from torch_spyre.logging_config import get_logger

logger = get_logger("spyre.inductor.work_division")


def reduce_spans(problem: Problem, legal: LegalSplits) -> dict[sympy.Symbol, int]:
    """Splits that later passes may enlarge but not lessen.

    A tensor that cannot be brought within the limit gets the smallest span there is: other passes
    may find better, and `check_spans` has the last word.
    """
    splits = legal.least
    for tensor in problem.spanning_tensors:
        splits = _reduce_span(problem, legal, tensor, splits)
    reductions = [symbol for symbol in problem.reduction_dims if splits[symbol] > 1]
    if len(reductions) > 1:
        raise WorkDivisionError(
            problem.spec.op,
            "Cannot satisfy hardware memory span limit "
            f"({problem.span_limit // 2**20}MB) without splitting {len(reductions)} reduction "
            "dimension(s), and the backend supports at most 1. Reduce one dim after the other",
        )
    return splits


def _reduce_span(
    problem: Problem, legal: LegalSplits, tensor: TensorArg, splits: dict[sympy.Symbol, int]
) -> dict[sympy.Symbol, int]:
    for position in range(len(tensor.device_size) - 1):
        if problem.span(tensor, splits) <= problem.span_limit:
            break
        splits = _best_for_coordinate(problem, legal, tensor, position, splits)
        if problem.extent(tensor, position, splits) > 1:
            break  # this dim sets the span, so dims further in cannot lessen it
    if problem.span(tensor, splits) > problem.span_limit:
        # No warning: an error follows, and who divides may cut the loops in parts instead.
        logger.debug(
            "Cannot satisfy span limit: %s, tensor of device size %s: %.1f MiB",
            problem.spec.op,
            list(tensor.device_size),
            problem.span(tensor, splits) / 2**20,
        )
    return splits


def _best_for_coordinate(
    problem: Problem,
    legal: LegalSplits,
    tensor: TensorArg,
    position: int,
    splits: dict[sympy.Symbol, int],
) -> dict[sympy.Symbol, int]:
    """Within the limit: the fewest cores, then the largest span. Else the smallest span."""
    candidates = [
        (problem.span(tensor, each), prod(each.values()), each)
        for each in _combinations(problem, legal, tensor, position, splits)
    ]
    within = [each for each in candidates if each[0] <= problem.span_limit]
    if within:
        return min(within, key=lambda each: (each[1], -each[0]))[2]
    return min(candidates, key=lambda each: each[0], default=(0, 0, splits))[2]


def _combinations(
    problem: Problem,
    legal: LegalSplits,
    tensor: TensorArg,
    position: int,
    splits: dict[sympy.Symbol, int],
) -> Iterator[dict[sympy.Symbol, int]]:
    inside = problem.coordinate_symbols(tensor, position)
    symbols = [symbol for symbol in problem.symbols if symbol in inside]
    choices = [
        [each for each in legal.splits[symbol] if each >= splits[symbol]] for symbol in symbols
    ]
    for chosen in product(*choices):
        candidate = splits | dict(zip(symbols, chosen, strict=True))
        if prod(candidate.values()) <= problem.cores:
            yield candidate


def check_spans(problem: Problem, splits: Splits, legal: LegalSplits | None = None) -> None:
    """Raises for the first tensor that is too far; `legal` says why a symbol is not split more."""
    for tensor in problem.spanning_tensors:
        span = problem.span(tensor, splits)
        if span <= problem.span_limit:
            continue
        touched = next(
            position
            for position in range(len(tensor.device_size))
            if problem.extent(tensor, position, splits) > 1
        )
        symbols = sorted(problem.coordinate_symbols(tensor, touched), key=str)
        raise SpanLimitError(
            problem.spec.op,
            "input" if tensor.is_input else "output",
            tensor.device_size,
            span,
            problem.span_limit,
            {str(symbol): split for symbol, split in splits.items() if split > 1},
            [f"{symbol}{legal.reason(symbol) if legal else ''}" for symbol in symbols],
        )

"""Checks the splits of a user's hint, which are used unchanged or rejected with a reason."""

from collections.abc import Mapping
from math import prod

import sympy

from torch_spyre._inductor.work_division.problem import Problem
from torch_spyre._inductor.work_division.rules import LegalSplits
from torch_spyre.errors import WorkDivisionHintError
from torch_spyre.logging_config import get_logger

logger = get_logger("torch_spyre.inductor.passes")


def splits_from_hint(
    problem: Problem, legal: LegalSplits, hint: Mapping[sympy.Symbol, int]
) -> dict[sympy.Symbol, int]:
    """Return the splits of a hint; symbols that it does not name are not split."""
    _check_values(problem, hint)
    _check_cores(problem, hint)
    splits = {symbol: hint.get(symbol, 1) for symbol in problem.symbols}
    for symbol, split in splits.items():
        _check_split(problem, legal, symbol, split)
    text = ", ".join(f"{symbol}={split}" for symbol, split in splits.items())
    logger.debug("%s: user-hint %s", problem.spec.op, text)
    return splits


def _check_values(problem: Problem, hint: Mapping[sympy.Symbol, int]) -> None:
    op = problem.spec.op
    for symbol, split in hint.items():
        if isinstance(split, bool) or not isinstance(split, int):
            raise WorkDivisionHintError(op, f"the split {split!r} of {symbol} must be an integer")
    for symbol, split in hint.items():
        if split <= 0:
            raise WorkDivisionHintError(op, f"the split {split} of {symbol} must be positive")
    for symbol in hint:
        if symbol not in problem.symbols:
            known = ", ".join(map(str, problem.symbols))
            raise WorkDivisionHintError(op, f"{symbol} is not one of its symbols: {known}")


def _check_cores(problem: Problem, hint: Mapping[sympy.Symbol, int]) -> None:
    reductions = [str(s) for s in problem.reduction_dims if hint.get(s, 1) > 1]
    if len(reductions) > 1:
        raise WorkDivisionHintError(
            problem.spec.op,
            f"it splits {len(reductions)} reduction dimensions ({', '.join(reductions)}), but "
            "cores can combine results along one only",
        )
    cores = prod(hint.values())
    if cores > problem.cores:
        raise WorkDivisionHintError(
            problem.spec.op, f"it needs {cores} cores, which exceeds SENCORES={problem.cores}"
        )


def _check_split(problem: Problem, legal: LegalSplits, symbol: sympy.Symbol, split: int) -> None:
    divisible = problem.divisible[symbol]
    if divisible % split:
        unit = " sticks" if symbol in problem.stick_elements else ""
        raise WorkDivisionHintError(
            problem.spec.op,
            f"{symbol} of size {problem.sizes[symbol]} is {divisible}{unit}, not evenly divisible "
            f"by {split}",
        )
    if split not in legal.splits[symbol]:
        allowed = ", ".join(map(str, legal.splits[symbol]))
        raise WorkDivisionHintError(
            problem.spec.op,
            f"{symbol} cannot be split by {split}{legal.reason(symbol)}; legal splits: {allowed}",
        )

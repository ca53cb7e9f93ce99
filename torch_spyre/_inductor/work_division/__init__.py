"""Work division: splits of the symbols of an op, and the slices that every core computes.

`divide` accepts an `OpSpec` and returns the number of slices of every symbol; it does not depend on
Inductor. Rules decide which splits are legal, and three passes choose among them. Limits and rates
come from the card description. See `docs/work-division.md`.
"""

from collections.abc import Mapping, Sequence
from math import prod

import sympy

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.work_division.core_mapping import (
    CoreMapping,
    Digit,
    core_mapping,
    core_slices,
)
from torch_spyre._inductor.work_division.distribution import distribute
from torch_spyre._inductor.work_division.granularity import Granularity, granularity_of
from torch_spyre._inductor.work_division.hints import splits_from_hint
from torch_spyre._inductor.work_division.matmul_cost import (
    EARLIER,
    LATER,
    CostModel,
    cheapest_split,
)
from torch_spyre._inductor.work_division.problem import (
    NO_GRANULARITY,
    Problem,
    stick_adjusted,
)
from torch_spyre._inductor.work_division.rules import (
    RULES,
    Constraints,
    LegalSplits,
    Rule,
    legal_splits,
)
from torch_spyre._inductor.work_division.span_reduction import check_spans, reduce_spans
from torch_spyre._inductor.work_division.spans import span_bytes
from torch_spyre.cards import CardDescription, load_card, usable_cores
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import InvalidCoresError, WorkDivisionError

__all__ = [
    "EARLIER",
    "LATER",
    "RULES",
    "Constraints",
    "CoreMapping",
    "CostModel",
    "Digit",
    "Granularity",
    "Problem",
    "Rule",
    "check_span_limit",
    "core_mapping",
    "core_slices",
    "divide",
    "granularity_of",
    "span_bytes",
    "stick_adjusted",
]


def divide(
    spec: OpSpec,
    card: CardDescription | None = None,
    *,
    cores: int | None = None,
    granularity: Mapping[sympy.Symbol, Granularity] = NO_GRANULARITY,
    hint: Mapping[sympy.Symbol, int] | None = None,
    rules: Sequence[Rule] = RULES,
    cost_model: CostModel = LATER,
    idle_share_before_reductions: float = 0.0,
) -> dict[sympy.Symbol, int]:
    """Return the number of slices of every symbol of `spec`; their product is the cores it uses.

    `card` is the card in use if it is None, and `cores` its usable cores (SENCORES). A `hint` that
    names a symbol replaces all planning, unless SPYRE_INDUCTOR_IGNORE_HINTS is set. For
    `idle_share_before_reductions` see `distribute`.
    """
    card = card or load_card()
    cores = usable_cores(card) if cores is None else cores
    if isinstance(cores, bool) or not 1 <= cores <= card.compute.cores:
        raise InvalidCoresError(cores, card.compute.cores)
    problem = Problem(spec, card, cores, granularity)
    _check_dynamic_sizes(problem)
    legal = legal_splits(problem, rules)
    if hint and not knobs.division.ignore_hints:
        splits = splits_from_hint(problem, legal, hint)
    else:
        splits = _plan(problem, legal, cost_model, idle_share_before_reductions)
    check_spans(problem, splits, legal)
    return splits


def check_span_limit(spec: OpSpec, card: CardDescription) -> None:
    """Raise `SpanLimitError` if a tensor of a divided spec exceeds the span limit on a core."""
    span_limit = card.memory.span_limit_bytes
    if any(_device_bytes(arg) > span_limit for arg in spec.args if not arg.in_scratchpad):
        check_spans(Problem(spec, card, card.compute.cores), spec.splits)


def _device_bytes(arg: TensorArg) -> int:
    return prod(arg.device_size[:-1]) * BYTES_IN_STICK


def _plan(
    problem: Problem, legal: LegalSplits, cost_model: CostModel, idle_share: float
) -> dict[sympy.Symbol, int]:
    floors = reduce_spans(problem, legal)
    distributed = distribute(problem, legal, floors, idle_share_before_reductions=idle_share)
    if not problem.is_matmul or floors != legal.minimum:
        return distributed
    cheapest = cheapest_split(problem, legal, cost_model)
    if cheapest is None:
        return distributed
    splits, _ = cheapest
    if not cost_model.may_leave_cores_idle and prod(splits.values()) < prod(distributed.values()):
        return distributed
    return splits


def _check_dynamic_sizes(problem: Problem) -> None:
    for symbol in problem.granularity:
        if symbol not in problem.spec.iteration_space:
            raise WorkDivisionError(
                problem.spec.op, f"{symbol} is marked dynamic, but is not one of its symbols"
            )
        if symbol in problem.stick_elements:
            raise WorkDivisionError(
                problem.spec.op,
                f"symbolic stick dim {symbol} is not supported yet; mark another dim dynamic",
            )
        if problem.is_matmul:
            raise WorkDivisionError(
                problem.spec.op,
                f"symbolic matmul dim {symbol} is not supported yet; use a fixed size",
            )

"""How one op is divided over cores: splits of its symbols, and which core has which slice.

`divide` takes an `OpSpec` that is not divided and says into how many slices to cut each symbol; it
knows nothing of Inductor. Rules say which splits are legal; three passes choose among them. See
`docs/work-division.md`.
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
from torch_spyre._inductor.work_division.spans import SPAN_LIMIT_BYTES, span_bytes
from torch_spyre.constants import BYTES_IN_STICK, MAX_CORES
from torch_spyre.errors import InvalidCoresError, WorkDivisionError

__all__ = [
    "EARLIER",
    "LATER",
    "RULES",
    "SPAN_LIMIT_BYTES",
    "Constraints",
    "CoreMapping",
    "CostModel",
    "Digit",
    "Granularity",
    "Problem",
    "Rule",
    "check_reach",
    "core_mapping",
    "core_slices",
    "divide",
    "granularity_of",
    "span_bytes",
    "stick_adjusted",
]


def divide(
    spec: OpSpec,
    *,
    cores: int | None = None,
    granularity: Mapping[sympy.Symbol, Granularity] = NO_GRANULARITY,
    hint: Mapping[sympy.Symbol, int] | None = None,
    rules: Sequence[Rule] = RULES,
    cost_model: CostModel = LATER,
    idle_share_before_reductions: float = 0.0,
    span_limit: int = SPAN_LIMIT_BYTES,
) -> dict[sympy.Symbol, int]:
    """Into how many slices to cut each symbol of `spec`; their product is the cores it uses.

    `cores` is SENCORES where it is None. A `hint` that names a symbol replaces all planning, unless
    SPYRE_INDUCTOR_IGNORE_HINTS is set. For `idle_share_before_reductions` see `distribute`.
    """
    cores = knobs.division.cores if cores is None else cores
    if isinstance(cores, bool) or not 1 <= cores <= MAX_CORES:
        raise InvalidCoresError(cores)
    problem = Problem(spec, cores, granularity, span_limit)
    _check_dynamic_sizes(problem)
    legal = legal_splits(problem, rules)
    if hint and not knobs.division.ignore_hints:
        splits = splits_from_hint(problem, legal, hint)
    else:
        splits = _plan(problem, legal, cost_model, idle_share_before_reductions)
    check_spans(problem, splits, legal)
    return splits


def check_reach(spec: OpSpec, span_limit: int = SPAN_LIMIT_BYTES) -> None:
    """A `SpanLimitError` if a core of a spec that is divided reaches too far in a tensor."""
    if any(_bytes(arg) > span_limit for arg in spec.args if not arg.in_scratchpad):
        check_spans(Problem(spec, MAX_CORES, NO_GRANULARITY, span_limit), spec.splits)


def _bytes(arg: TensorArg) -> int:
    return prod(arg.device_size[:-1]) * BYTES_IN_STICK


def _plan(
    problem: Problem, legal: LegalSplits, cost_model: CostModel, idle_share: float
) -> dict[sympy.Symbol, int]:
    floors = reduce_spans(problem, legal)
    distributed = distribute(problem, legal, floors, idle_share_before_reductions=idle_share)
    if not problem.is_matmul or floors != legal.least:
        return distributed
    cheapest = cheapest_split(problem, legal, cost_model)
    if cheapest is None:
        return distributed
    splits, _ = cheapest
    if not cost_model.may_idle and prod(splits.values()) < prod(distributed.values()):
        return distributed
    return splits


def _check_dynamic_sizes(problem: Problem) -> None:
    for symbol in problem.granularity:
        if symbol not in problem.spec.iteration_space:
            raise WorkDivisionError(problem.spec.op, f"it has no symbol {symbol} to be dynamic")
        if symbol in problem.sticks:
            raise WorkDivisionError(
                problem.spec.op,
                f"symbolic stick dim {symbol} is not supported yet; mark another dim dynamic",
            )
        if problem.is_matmul:
            raise WorkDivisionError(
                problem.spec.op,
                f"symbolic matmul dim {symbol} is not supported yet; use a fixed size",
            )

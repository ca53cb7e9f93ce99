"""One sample on the card and on the CPU, and what comes of it."""

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from torch_spyre import _C
from torch_spyre.device import cards
from torch_spyre.errors import FallbackError
from torch_spyre.opinfo import places, rules
from torch_spyre.opinfo.results import Outcome, Verdict
from torch_spyre.testing.op_samples import (
    CARD,
    CPU,
    REFUSALS,
    SEED,
    Arguments,
    arguments_of,
    gradients,
    has_values,
    is_storable,
    name_of,
    new_outputs,
    tensors_of,
)
from torch_spyre.testing.tolerances import difference, tolerance

# Eager ops are composed of kernels, each of which rounds its results to the card's format.
ROUNDINGS = 8
# SEN169 has half the precision of float16, and sums of other orders err otherwise.
TIMES_THE_CPUS_ERROR = 4.0
# Of the arguments of an op that is sensitive to them.
PERTURBATIONS = 8
# From so many on, the statistics of random numbers say something.
MANY_ELEMENTS = 64
OUTPUTS = ("right", "none", "gaps")
# What a refusal says of what is missing.
CLEAR_REFUSAL = re.compile(r"dtype|[Ss]parse|nested|quantized|layout")

Run = Callable[[Arguments], Any]
# Told what is about to run: "cpu" or "card".
Stage = Callable[[str], None]


class Sample:
    """One sample in one variant."""

    def __init__(
        self, op: OpInfo, dtype: torch.dtype, variant: str, sample: SampleInput, stage: Stage
    ) -> None:
        self.op, self.dtype, self.variant, self.sample = op, dtype, variant, sample
        self.stage = stage

    def outcome(self) -> Outcome:
        if name_of(self.op).startswith(rules.NOT_FOR_CPU):
            return Outcome(Verdict.VOID)
        given = arguments_of(self.sample)
        if not all(map(is_storable, given.tensors)):
            return _refused_move(given)
        if self.variant == "out":
            return self._with_outputs(given)
        if self.variant == "gradient":
            return self._gradient(given)
        return self._compared(given, lambda arguments: arguments.call(self.op))

    def first_fallback(self) -> str | None:
        """The op that the CPU has to do first."""
        card = self._on_card(arguments_of(self.sample))
        _C._set_fallback_policy("error")
        try:
            if self.variant == "gradient":
                gradients(card, self.op, self.sample)
            else:
                card.call(self.op)
        except FallbackError as error:
            return error.op
        except RuntimeError:
            return None
        finally:
            _C._set_fallback_policy("silent")
        return None

    def _on_card(self, given: Arguments) -> Arguments:
        card = given.moved_to(CARD)
        if name_of(self.op) in rules.ARGUMENTS_STAY_ON_CPU:
            card = replace(card, args=given.args, kwargs=given.kwargs)
        return card.with_gaps() if self.variant == "noncontiguous" else card

    def _on_cpu(self, card: Arguments) -> Arguments:
        cpu = card.moved_to(CPU)
        return cpu.with_gaps() if self.variant == "noncontiguous" else cpu

    def _gradient(self, given: Arguments) -> Outcome:
        try:
            results = given.moved_to(CPU).call(self.op)
        except REFUSALS as error:
            return Outcome(Verdict.VOID, _short(error))
        if not all(map(is_storable, tensors_of(results))):
            return Outcome(Verdict.VOID)
        return self._compared(given, lambda each: gradients(each, self.op, self.sample))

    def _with_outputs(self, given: Arguments) -> Outcome:
        try:
            results = given.moved_to(CPU).call(self.op)
        except REFUSALS as error:
            return Outcome(Verdict.VOID, _short(error))
        if not tensors_of(results) or not all(map(is_storable, tensors_of(results))):
            return Outcome(Verdict.VOID)  # there is no such tensor to pass
        outcomes = []
        for kind in OUTPUTS:

            def run(arguments: Arguments, kind: str = kind) -> Any:
                out = new_outputs(results, kind, arguments.device)
                arguments.call(self.op, out=out)
                return out

            if kind == "gaps" and name_of(self.op) in rules.WRONG_GAPS_ON_CPU:
                continue
            found = self._compared(given, run)
            detail = f"out= ({kind}): {found.detail}" if found.detail else ""
            outcomes.append(Outcome(found.verdict, detail))
        return max(outcomes, key=lambda outcome: list(Verdict).index(outcome.verdict))

    def _compared(self, given: Arguments, run: Run) -> Outcome:
        card = self._on_card(given)
        cpu = self._on_cpu(card)
        self.stage("cpu")
        try:
            wanted = self._reference(cpu, run)
        except REFUSALS as error:
            return self._refused_by_cpu(card, run, error)
        homeless = [tensor for tensor in tensors_of(wanted) if not is_storable(tensor)]
        self.stage("card")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("ignore")
            # A defect of the compiler, which it reports before it falls back.
            warnings.simplefilter("always", RuntimeWarning)
            before = cards.counters()["fallbacks"]
            try:
                got = run(card)
                cards.synchronize()
            except Exception as error:  # the report carries it
                return self._failed(error, homeless)
            fallbacks = cards.counters()["fallbacks"] - before
        got, wanted = _in_real_parts(got), _in_real_parts(wanted)
        homeless = [tensor for tensor in tensors_of(wanted) if not is_storable(tensor)]
        if homeless and name_of(self.op) not in rules.GIVES_CPU_TENSORS:
            return Outcome(Verdict.WRONG, f"gave {homeless[0].dtype}, which the card cannot hold")
        wrong = self._difference_of_kinds(got, wanted, CPU if homeless else card.device)
        if not wrong and self.variant != "gradient" and rules.shares_as_on_cpu(self.op):
            wrong = _difference_of_memory(got, wanted, card, cpu)
        if wrong:
            return Outcome(Verdict.WRONG, wrong)
        wrong = self._difference_of_values(got, wanted)
        if wrong and homeless:
            return Outcome(Verdict.WRONG, wrong)
        if wrong and self._differs_in_which_of_equals(got, wanted, card):
            wrong = None
        if wrong and self._is_as_exact_as_the_cpu(got, wanted, card, run):
            wrong = None
        wrong = wrong or _difference_of_arguments(card, cpu)
        if wrong:
            excuse = rules.excuse(self.op, str(self.dtype).removeprefix("torch."))
            verdict = Verdict.VOID if excuse else Verdict.WRONG
            return Outcome(verdict, f"{excuse}: {wrong}" if excuse else wrong)
        defects = [str(each.message) for each in seen if each.category is RuntimeWarning]
        return Outcome(
            Verdict.FALLBACK if fallbacks or homeless else Verdict.NATIVE,
            _one_line(defects[0]) if defects and fallbacks else "",
        )

    def _reference(self, cpu: Arguments, run: Run) -> Any:
        """The CPU's results: on dense inputs or in float32, where it takes no others."""
        roads = [cpu, cpu.dense()] if self.variant == "noncontiguous" else [cpu]
        refusals = []
        for arguments in roads:
            try:
                return run(arguments)
            except REFUSALS as error:
                refusals.append(error)
        if self.dtype is not torch.float16:
            raise refusals[0]
        wide = run(roads[-1].in_dtype(torch.float32))
        return tree_map(
            lambda leaf: (
                leaf.to(self.dtype)
                if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32
                else leaf
            ),
            wide,
        )

    def _is_as_exact_as_the_cpu(self, got: Any, wanted: Any, card: Arguments, run: Run) -> bool:
        """Where terms cancel, the CPU's results are off as well: no more is asked of the card.

        What is exact is taken to be what float64 gives.
        """
        if not self.dtype.is_floating_point:
            return False
        wide = self._on_cpu(card).in_dtype(torch.float64)
        try:
            # Tensors for out= are not of that type.
            exact = wide.call(self.op) if self.variant == "out" else run(wide)
        except REFUSALS:
            return False
        spreads = self._spreads(wide, exact, run)
        results = map(tensors_of, (got, wanted, exact))
        for one, other, best, spread in zip(*results, spreads, strict=True):
            if one.shape != other.shape or best.shape != other.shape:
                return False
            if not one.is_floating_point():
                if not torch.equal(one.cpu(), other):
                    return False
                continue
            best = best.detach()
            error = (other.detach().double() - best).abs().nan_to_num(0.0, 0.0, 0.0)
            room = TIMES_THE_CPUS_ERROR * error.max().item() if error.numel() else 0.0
            room = max(room, spread)
            rounded = best.to(one.dtype).to(CARD).cpu()
            if difference(one.detach().cpu(), rounded, ROUNDINGS, room):
                return False
        return True

    def _spreads(self, wide: Arguments, exact: Any, run: Run) -> list[float]:
        """How far each result moves where the arguments are rounded otherwise."""
        found = [0.0 for _ in tensors_of(exact)]
        if not rules.is_sensitive(self.op):
            return found
        generator = torch.Generator().manual_seed(SEED)
        for _ in range(PERTURBATIONS):
            others = tensors_of(run(wide.scaled(tolerance(self.dtype, ROUNDINGS), generator)))
            moves = [
                (one.detach() - other.detach()).abs().max().item() if one.numel() else 0.0
                for one, other in zip(others, tensors_of(exact), strict=True)
            ]
            found = [max(pair) for pair in zip(found, moves, strict=True)]
        return found

    def _differs_in_which_of_equals(self, got: Any, wanted: Any, card: Arguments) -> bool:
        """Whether values agree, and places are those of other elements that are equal."""
        dim = places.dim_of(name_of(self.op), card)
        if dim is None or self.variant == "gradient":
            return False
        *values, found = tensors_of(got)
        *others, expected = tensors_of(wanted)
        if self._difference_of_values(values, others):
            return False
        return places.are_of_equals(card.input.cpu(), dim, found.cpu(), expected)

    def _refused_by_cpu(self, card: Arguments, run: Run, refusal: BaseException) -> Outcome:
        self.stage("card")
        try:
            run(card)
            cards.synchronize()
        except REFUSALS:
            return Outcome(Verdict.VOID)
        return Outcome(Verdict.WRONG, f"takes what the CPU refuses: {_short(refusal)}")

    def _failed(self, error: Exception, homeless: list[torch.Tensor]) -> Outcome:
        text = _short(error)
        lacks_half = self.dtype is torch.float16 and "not implemented for 'Half'" in text
        if isinstance(error, REFUSALS) and (
            lacks_half or (homeless and CLEAR_REFUSAL.search(str(error)))
        ):
            return Outcome(Verdict.REFUSED, text)
        return Outcome(Verdict.WRONG, f"raised {type(error).__name__}: {text}")

    def _difference_of_kinds(self, got: Any, wanted: Any, device: torch.device) -> str | None:
        """In all but the values of tensors."""
        found, expected = tree_leaves(got), tree_leaves(wanted)
        if len(found) != len(expected):
            return f"{len(found)} results, expected {len(expected)}"
        for one, other in zip(found, expected, strict=True):
            if isinstance(other, torch.Tensor):
                problem = self._difference_of_kind(one, other, device)
            else:
                problem = _difference_of_objects(one, other)
            if problem:
                return problem
        return None

    def _difference_of_kind(
        self, got: Any, wanted: torch.Tensor, device: torch.device
    ) -> str | None:
        if self._is_not_given_on_cpu(wanted):
            return None
        for what in ("dtype", "shape"):
            one, other = getattr(got, what), getattr(wanted, what)
            if one != other:
                return f"{what} {one}, expected {other}"
        if got.device != device:
            return f"on {got.device}, expected {device}"
        if self.variant == "gradient" or not rules.has_strides(self.op):
            return None
        one, other = _strides(got), _strides(wanted)
        return None if one == other else f"strides {one}, expected {other}"

    def _is_not_given_on_cpu(self, wanted: torch.Tensor) -> bool:
        return wanted.shape == (0,) and name_of(self.op) in rules.EMPTY_ON_CPU

    def _difference_of_values(self, got: Any, wanted: Any) -> str | None:
        if not has_values(self.op):
            return None
        for one, other in zip(tensors_of(got), tensors_of(wanted), strict=True):
            if self._is_not_given_on_cpu(other):
                continue
            one, other = one.detach().cpu(), other.detach()
            if is_storable(other):
                other = other.to(CARD).cpu()
            problem = difference(one, other, ROUNDINGS)
            if problem and rules.is_random(self.op):
                problem = _difference_of_statistics(one, other)
            if problem:
                return problem
        return None


def _in_real_parts(results: Any) -> Any:
    """Complex tensors as what the card makes of them: two real numbers each."""

    def parts(value: Any) -> Any:
        is_complex = isinstance(value, torch.Tensor) and value.is_complex()
        return torch.view_as_real(value.resolve_conj()) if is_complex else value

    return tree_map(parts, results)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Of the dims that have a next element."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(step for size, step in steps if size > 1) if tensor.numel() else ()


def _refused_move(given: Arguments) -> Outcome:
    try:
        given.moved_to(CARD)
    except REFUSALS as error:
        return Outcome(Verdict.REFUSED, _short(error))
    return Outcome(Verdict.WRONG, "the card took a tensor that it has no format for")


def _difference_of_memory(got: Any, wanted: Any, card: Arguments, cpu: Arguments) -> str | None:
    """A result that is part of an argument changes with it, and that one with the result."""
    for one, other in zip(tensors_of(got), tensors_of(wanted), strict=True):
        shares, should = _shares_memory(one, card), _shares_memory(other, cpu)
        if shares != should:
            return f"{'shares' if shares else 'does not share'} memory with an argument"
    return None


def _shares_memory(result: torch.Tensor, arguments: Arguments) -> bool:
    memory = result.untyped_storage()._cdata
    return any(memory == tensor.untyped_storage()._cdata for tensor in arguments.tensors)


def _difference_of_arguments(card: Arguments, cpu: Arguments) -> str | None:
    """What the op changed of its arguments, or left alone."""
    for one, other in zip(card.tensors, cpu.tensors, strict=True):
        problem = difference(one.detach().cpu(), other.detach().to(CARD).cpu(), ROUNDINGS)
        if problem:
            return f"an argument afterwards: {problem}"
    return None


def _difference_of_objects(got: Any, wanted: Any) -> str | None:
    if isinstance(wanted, torch.device):
        return None
    if isinstance(wanted, float) and isinstance(got, float):
        same = math.isclose(got, wanted, rel_tol=2**-6) or (math.isnan(got) and math.isnan(wanted))
    else:
        same = bool(got == wanted)
    return None if same else f"got {got!r}, expected {wanted!r}"


def _difference_of_statistics(got: torch.Tensor, wanted: torch.Tensor) -> str | None:
    """The mean within five standard errors, and the spread within a factor of two."""
    one, other = got.double(), wanted.double()
    if one.numel() < MANY_ELEMENTS:
        return None
    spreads = one.std().item(), other.std().item()
    error = 5 * max(spreads) * math.sqrt(2 / one.numel())
    if abs((one.mean() - other.mean()).item()) > error:
        return f"random with mean {one.mean().item():.4g}, expected {other.mean().item():.4g}"
    if max(spreads) > 2 * min(spreads):
        return f"random with deviation {spreads[0]:.4g}, expected {spreads[1]:.4g}"
    return None


def _short(error: BaseException) -> str:
    return _one_line(str(error).partition("Exception raised")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]

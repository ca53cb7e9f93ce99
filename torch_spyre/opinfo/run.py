"""Run one sample on the card and on the CPU, and compare the results."""

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
from torch_spyre.opinfo import metadata, rules, ties
from torch_spyre.opinfo.results import Outcome, Verdict
from torch_spyre.testing.op_samples import (
    CARD,
    CPU,
    EXPECTED_ERRORS,
    MEMORY_ORDERS,
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

# Eager ops may consist of several kernels, each of which rounds its results.
ROUNDINGS = 8
# SEN169 has one fraction bit less than float16, and the order of sums differs.
MAX_RATIO_TO_CPU_ERROR = 4.0
# Runs of an ill-conditioned op with perturbed arguments.
NUM_PERTURBATIONS = 8
# Statistics of random results are compared from this number of elements on.
MIN_RANDOM_ELEMENTS = 64
OUTPUTS = ("matching", "empty", "noncontiguous")
# Error messages that name the unsupported dtype or layout.
UNSUPPORTED_MESSAGE = re.compile(r"dtype|[Ss]parse|nested|quantized|layout")

Run = Callable[[Arguments], Any]
# Called with "cpu" or "card" before the sample runs there.
Stage = Callable[[str], None]


class Sample:
    """One sample in one variant."""

    def __init__(
        self, op: OpInfo, dtype: torch.dtype, variant: str, sample: SampleInput, stage: Stage
    ) -> None:
        self.op, self.dtype, self.variant, self.sample = op, dtype, variant, sample
        self.stage = stage

    def outcome(self) -> Outcome:
        """Run the sample and return its verdict."""
        if name_of(self.op).startswith(rules.CUDA_ONLY):
            return Outcome(Verdict.VOID)
        arguments = arguments_of(self.sample)
        if not all(map(is_storable, arguments.tensors)):
            return _copy_unsupported(arguments)
        if self.variant in MEMORY_ORDERS:
            reordered = arguments.in_memory_order(self.variant)
            if reordered.strides == arguments.strides:
                return Outcome(Verdict.VOID)
            arguments = reordered
        if self.variant == "out":
            return self._with_outputs(arguments)
        if self.variant == "gradient":
            return self._gradient(arguments)
        return self._compare(arguments, lambda arguments: arguments.call(self.op))

    def first_fallback(self) -> str | None:
        """Return the first op that falls back to the CPU, or None."""
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

    def _on_card(self, arguments: Arguments) -> Arguments:
        card = arguments.moved_to(CARD)
        if name_of(self.op) in rules.ARGUMENTS_STAY_ON_CPU:
            card = replace(card, args=arguments.args, kwargs=arguments.kwargs)
        return card.noncontiguous() if self.variant == "noncontiguous" else card

    def _on_cpu(self, card: Arguments) -> Arguments:
        cpu = card.moved_to(CPU)
        return cpu.noncontiguous() if self.variant == "noncontiguous" else cpu

    def _gradient(self, arguments: Arguments) -> Outcome:
        try:
            results = arguments.moved_to(CPU).call(self.op)
        except EXPECTED_ERRORS as error:
            return Outcome(Verdict.VOID, _short(error))
        if not all(map(is_storable, tensors_of(results))):
            return Outcome(Verdict.VOID)
        return self._compare(
            arguments, lambda arguments: gradients(arguments, self.op, self.sample)
        )

    def _with_outputs(self, arguments: Arguments) -> Outcome:
        try:
            results = arguments.moved_to(CPU).call(self.op)
        except EXPECTED_ERRORS as error:
            return Outcome(Verdict.VOID, _short(error))
        if not tensors_of(results) or not all(map(is_storable, tensors_of(results))):
            return Outcome(Verdict.VOID)  # the card cannot hold such a tensor
        outcomes = []
        for kind in OUTPUTS:

            def run(call_arguments: Arguments, kind: str = kind) -> Any:
                out = new_outputs(results, kind, call_arguments.device)
                call_arguments.call(self.op, out=out)
                return out

            is_wrong_on_cpu = name_of(self.op) in rules.NONCONTIGUOUS_OUT_WRONG_ON_CPU
            if kind == "noncontiguous" and is_wrong_on_cpu:
                continue
            outcome = self._compare(arguments, run)
            detail = f"out= ({kind}): {outcome.detail}" if outcome.detail else ""
            outcomes.append(Outcome(outcome.verdict, detail))
        return max(outcomes, key=lambda outcome: list(Verdict).index(outcome.verdict))

    def _compare(self, arguments: Arguments, run: Run) -> Outcome:
        card = self._on_card(arguments)
        cpu = self._on_cpu(card)
        self.stage("cpu")
        try:
            expected = self._reference(cpu, run)
        except EXPECTED_ERRORS as error:
            return self._compare_errors(card, run, error)
        unsupported = [tensor for tensor in tensors_of(expected) if not is_storable(tensor)]
        self.stage("card")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            # The compiler reports an internal error as a RuntimeWarning before it falls back.
            warnings.simplefilter("always", RuntimeWarning)
            before = cards.counters()
            try:
                actual = run(card)
                cards.synchronize()
            except Exception as error:  # the report carries it
                return self._failed(error, unsupported)
            after = cards.counters()
        fallbacks = after["fallbacks"] - before["fallbacks"]
        bytes_read = after["d2h_bytes"] - before["d2h_bytes"]
        if bytes_read and not fallbacks and not rules.may_read_on_host(self.op, self.variant):
            return Outcome(Verdict.WRONG, f"copied {bytes_read} bytes to the host, no fallback")
        actual, expected = _complex_as_real(actual), _complex_as_real(expected)
        unsupported = [tensor for tensor in tensors_of(expected) if not is_storable(tensor)]
        if unsupported and name_of(self.op) not in rules.RETURNS_CPU_TENSORS:
            return Outcome(
                Verdict.WRONG, f"returned {unsupported[0].dtype}, which the card cannot hold"
            )
        problem = self._metadata_difference(actual, expected, CPU if unsupported else card.device)
        is_listed = rules.metadata_difference(self.op) is not None
        if not problem and self.variant != "gradient" and not is_listed:
            problem = metadata.aliasing_difference(actual, expected, card, cpu)
        if not problem and not unsupported:
            problem = self._fake_difference(card, cpu, expected)
        if problem:
            return Outcome(Verdict.WRONG, problem)
        problem = self._value_difference(actual, expected)
        if problem and unsupported:
            return Outcome(Verdict.WRONG, problem)
        if problem and self._differs_only_in_ties(actual, expected, card):
            problem = None
        if problem and self._is_as_accurate_as_cpu(actual, expected, card, run):
            problem = None
        problem = problem or _argument_difference(card, cpu)
        if problem:
            reason = rules.expected_difference(self.op, str(self.dtype).removeprefix("torch."))
            verdict = Verdict.VOID if reason else Verdict.WRONG
            return Outcome(verdict, f"{reason}: {problem}" if reason else problem)
        defects = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
        return Outcome(
            Verdict.FALLBACK if fallbacks or unsupported else Verdict.NATIVE,
            _one_line(defects[0]) if defects and fallbacks else "",
        )

    def _reference(self, cpu: Arguments, run: Run) -> Any:
        """Return the CPU's results; retry with contiguous inputs or in float32 if it raises."""
        attempts = [cpu, cpu.contiguous()] if self.variant == "noncontiguous" else [cpu]
        errors = []
        for arguments in attempts:
            try:
                return run(arguments)
            except EXPECTED_ERRORS as error:
                errors.append(error)
        if self.dtype is not torch.float16:
            raise errors[0]
        wide = run(attempts[-1].in_dtype(torch.float32))
        return tree_map(
            lambda leaf: (
                leaf.to(self.dtype)
                if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32
                else leaf
            ),
            wide,
        )

    def _is_as_accurate_as_cpu(self, actual: Any, expected: Any, card: Arguments, run: Run) -> bool:
        """Return whether the card's error relative to float64 is comparable to the CPU's.

        Where terms cancel, the CPU's results are inaccurate as well.
        """
        if not self.dtype.is_floating_point:
            return False
        wide = self._on_cpu(card).in_dtype(torch.float64)
        try:
            # Tensors for out= have another dtype.
            exact = wide.call(self.op) if self.variant == "out" else run(wide)
        except EXPECTED_ERRORS:
            return False
        spreads = self._spreads(wide, exact, run)
        results = map(tensors_of, (actual, expected, exact))
        for result, reference, best, spread in zip(*results, spreads, strict=True):
            if result.shape != reference.shape or best.shape != reference.shape:
                return False
            if not result.is_floating_point():
                if not torch.equal(result.cpu(), reference):
                    return False
                continue
            best = best.detach()
            error = (reference.detach().double() - best).abs().nan_to_num(0.0, 0.0, 0.0)
            max_error = MAX_RATIO_TO_CPU_ERROR * error.max().item() if error.numel() else 0.0
            max_error = max(max_error, spread)
            rounded = best.to(result.dtype).to(CARD).cpu()
            if difference(result.detach().cpu(), rounded, ROUNDINGS, max_error):
                return False
        return True

    def _spreads(self, wide: Arguments, exact: Any, run: Run) -> list[float]:
        """Return how much each result changes under rounding errors of the arguments."""
        spreads = [0.0 for _ in tensors_of(exact)]
        if not rules.is_ill_conditioned(self.op):
            return spreads
        generator = torch.Generator().manual_seed(SEED)
        for _ in range(NUM_PERTURBATIONS):
            perturbed = wide.perturbed(tolerance(self.dtype, ROUNDINGS), generator)
            changes = [
                (result.detach() - best.detach()).abs().max().item() if result.numel() else 0.0
                for result, best in zip(tensors_of(run(perturbed)), tensors_of(exact), strict=True)
            ]
            spreads = [max(pair) for pair in zip(spreads, changes, strict=True)]
        return spreads

    def _differs_only_in_ties(self, actual: Any, expected: Any, card: Arguments) -> bool:
        """Return whether values match, and indices differ only among equal elements."""
        dim = ties.tie_dim(name_of(self.op), card)
        if dim is None or self.variant == "gradient":
            return False
        *values, indices = tensors_of(actual)
        *expected_values, expected_indices = tensors_of(expected)
        if self._value_difference(values, expected_values):
            return False
        return ties.differ_only_in_ties(card.input.cpu(), dim, indices.cpu(), expected_indices)

    def _compare_errors(self, card: Arguments, run: Run, cpu_error: BaseException) -> Outcome:
        """Return the verdict of a sample that raises on the CPU."""
        self.stage("card")
        try:
            run(card)
            cards.synchronize()
        except EXPECTED_ERRORS:
            return Outcome(Verdict.VOID)
        reason = rules.ACCEPTS_MORE.get(name_of(self.op))
        if reason is not None:
            return Outcome(Verdict.VOID, reason)
        return Outcome(Verdict.WRONG, f"accepts what the CPU rejects: {_short(cpu_error)}")

    def _failed(self, error: Exception, unsupported: list[torch.Tensor]) -> Outcome:
        text = _short(error)
        is_half_missing = self.dtype is torch.float16 and "not implemented for 'Half'" in text
        if isinstance(error, EXPECTED_ERRORS) and (
            is_half_missing or (unsupported and UNSUPPORTED_MESSAGE.search(str(error)))
        ):
            return Outcome(Verdict.REFUSED, text)
        return Outcome(Verdict.WRONG, f"raised {type(error).__name__}: {text}")

    def _metadata_difference(self, actual: Any, expected: Any, device: torch.device) -> str | None:
        """Return a difference in anything but the values of tensors, or None."""
        leaves, expected_leaves = tree_leaves(actual), tree_leaves(expected)
        if len(leaves) != len(expected_leaves):
            return f"{len(leaves)} results, expected {len(expected_leaves)}"
        for leaf, expected_leaf in zip(leaves, expected_leaves, strict=True):
            if isinstance(expected_leaf, torch.Tensor):
                problem = self._tensor_metadata_difference(leaf, expected_leaf, device)
            else:
                problem = _object_difference(leaf, expected_leaf)
            if problem:
                return problem
        return None

    def _tensor_metadata_difference(
        self, actual: Any, expected: torch.Tensor, device: torch.device
    ) -> str | None:
        if self._is_omitted_on_cpu(expected):
            return None
        for name in ("dtype", "shape"):
            value, expected_value = getattr(actual, name), getattr(expected, name)
            if value != expected_value:
                return f"{name} {value}, expected {expected_value}"
        if actual.device != device:
            return f"on {actual.device}, expected {device}"
        if self.variant == "gradient" or rules.metadata_difference(self.op):
            return None
        return metadata.strides_difference(actual, expected)

    def _fake_difference(self, card: Arguments, cpu: Arguments, expected: Any) -> str | None:
        if self.variant in ("out", "gradient") or rules.metadata_difference(self.op):
            return None
        return metadata.fake_difference(self.op, card, cpu, expected)

    def _is_omitted_on_cpu(self, expected: torch.Tensor) -> bool:
        return expected.shape == (0,) and name_of(self.op) in rules.EMPTY_ON_CPU

    def _value_difference(self, actual: Any, expected: Any) -> str | None:
        if not has_values(self.op):
            return None
        for result, reference in zip(tensors_of(actual), tensors_of(expected), strict=True):
            if self._is_omitted_on_cpu(reference):
                continue
            result, reference = result.detach().cpu(), reference.detach()
            if is_storable(reference):
                reference = reference.to(CARD).cpu()
            problem = difference(result, reference, ROUNDINGS)
            if problem and rules.is_random(self.op):
                problem = _statistics_difference(result, reference)
            if problem:
                return problem
        return None


def _complex_as_real(results: Any) -> Any:
    """Return complex tensors as real tensors with a last dim of size 2, as on the card."""

    def to_real(value: Any) -> Any:
        is_complex = isinstance(value, torch.Tensor) and value.is_complex()
        return torch.view_as_real(value.resolve_conj()) if is_complex else value

    return tree_map(to_real, results)


def _copy_unsupported(arguments: Arguments) -> Outcome:
    """Return the verdict of a copy to the card of a tensor that the card cannot hold."""
    try:
        arguments.moved_to(CARD)
    except EXPECTED_ERRORS as error:
        return Outcome(Verdict.REFUSED, _short(error))
    return Outcome(Verdict.WRONG, "the card accepted a tensor of an unsupported format")


def _argument_difference(card: Arguments, cpu: Arguments) -> str | None:
    """Return a difference in the arguments after the call, or None."""
    for tensor, reference in zip(card.tensors, cpu.tensors, strict=True):
        problem = difference(tensor.detach().cpu(), reference.detach().to(CARD).cpu(), ROUNDINGS)
        if problem:
            return f"an argument afterwards: {problem}"
    return None


def _object_difference(actual: Any, expected: Any) -> str | None:
    if isinstance(expected, torch.device):
        return None
    if isinstance(expected, float) and isinstance(actual, float):
        is_same = math.isclose(actual, expected, rel_tol=2**-6) or (
            math.isnan(actual) and math.isnan(expected)
        )
    else:
        is_same = bool(actual == expected)
    return None if is_same else f"got {actual!r}, expected {expected!r}"


def _statistics_difference(actual: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Return a difference in the mean, by five standard errors, or in the deviation, by twice."""
    sample, reference = actual.double(), expected.double()
    if sample.numel() < MIN_RANDOM_ELEMENTS:
        return None
    deviations = sample.std().item(), reference.std().item()
    error = 5 * max(deviations) * math.sqrt(2 / sample.numel())
    means = sample.mean().item(), reference.mean().item()
    if abs(means[0] - means[1]) > error:
        return f"random with mean {means[0]:.4g}, expected {means[1]:.4g}"
    if max(deviations) > 2 * min(deviations):
        return f"random with deviation {deviations[0]:.4g}, expected {deviations[1]:.4g}"
    return None


def _short(error: BaseException) -> str:
    return _one_line(str(error).partition("Exception raised")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]

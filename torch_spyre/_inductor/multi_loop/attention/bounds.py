"""Bounds of attention, for the verification of kernels: the definition in float64, and its error.

The error of a score is that of a float32 accumulation. The card computes the softmax online: the
weight of a key is an exponential, rescaled once for each later tile of keys, and rounded to the
format of the values. The bounds allow for a tile for each key.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table.attention import ATTENTION
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre._inductor.verification.reductions import (
    FLOAT32_ROUNDING,
    contract,
    with_nan_unknown,
)
from torch_spyre._inductor.verification.value_formats import ValueFormat, converted, value_format

# An exponential of float32 is within one unit in the last place, and so is a multiplication by it.
_EXPONENTIAL = 2 * 2 * FLOAT32_ROUNDING
# Elements of scores that are computed at once.
_MAX_SCORES = 1 << 22


@dataclass(frozen=True)
class _Terms:
    """The tensors of attention over the dims of the iteration space."""

    query: Bounds
    key: Bounds
    value: Bounds | None
    bias: Bounds | None
    # Whether a key is visible to a row; None if all are.
    visible: torch.Tensor | None

    def parts(self) -> list[Bounds | torch.Tensor | None]:
        return [self.query, self.key, self.value, self.bias, self.visible]

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> "_Terms":
        return _Terms(
            *(
                part
                if part is None
                else part.map(function)
                if isinstance(part, Bounds)
                else function(part)
                for part in self.parts()
            )  # type: ignore[arg-type]  # in the order of the fields
        )


class AttentionBounds:
    """Computes the bounds of one spec."""

    def __init__(self, spec: OpSpec, grid: Grid) -> None:
        roles = LoopRoles.from_op_info(spec.op_info)
        self.spec, self.grid, self.roles = spec, grid, roles
        self.keys = [grid.dims[symbol] for symbol in roles.symbols("key", grid.sizes)]
        self.inner = [grid.dims[symbol] for symbol in roles.symbols("inner", grid.sizes)]
        self.num_keys = math.prod(grid.shape[dim] for dim in self.keys)
        self.num_inner = math.prod(grid.shape[dim] for dim in self.inner)
        self.scale = float(spec.constants["scale"])

    def compute(self, operands: Sequence[Bounds]) -> Bounds:
        """Return the bounds of the result: the weighted values, or the logsumexp of each row."""
        formats = [value_format(arg.device_dtype) for arg in self.spec.operands]
        query, key, *optional = operands
        value = optional.pop(0) if self.spec.op == ATTENTION else None
        value_type = formats[2] if value is not None else formats[0]
        bias = None
        if optional:
            # As a conversion to float32 reads it: the largest code is infinity.
            float32 = value_format(type(self.spec.output.device_dtype).IEEE_FP32)
            bias = converted(optional[0], formats[-1], float32)
        visible = None
        if self.spec.constants["causal"]:
            rows, keys = (
                self.grid.evaluate(self.roles.index(role, self.grid.sizes))
                for role in ("row", "key")
            )
            visible = keys <= rows
        terms = _Terms(query, key, value, bias, visible)
        return self._in_parts(terms, formats[0], value_type)

    def _in_parts(self, terms: _Terms, format: ValueFormat, value_type: ValueFormat) -> Bounds:
        """Compute at most some number of scores at once."""
        shapes = [part.shape for part in terms.parts() if part is not None]
        shape = torch.broadcast_shapes(*shapes)
        outer = [dim for dim in range(len(shape)) if dim not in (*self.keys, *self.inner)]
        scores = math.prod(shape[dim] for dim in (*outer, *self.keys))
        longest = max(outer, key=lambda dim: shape[dim], default=None)
        if scores <= _MAX_SCORES or longest is None or shape[longest] == 1:
            return self._bounds(terms, format, value_type)
        half = shape[longest] // 2
        results = []
        for start, size in ((0, half), (half, shape[longest] - half)):

            def part(values: torch.Tensor, start: int = start, size: int = size) -> torch.Tensor:
                if values.shape[longest] == 1:
                    return values
                return values.narrow(longest, start, size)

            results.append(self._in_parts(terms.map(part), format, value_type))
        low = torch.cat([result.low for result in results], longest)
        high = torch.cat([result.high for result in results], longest)
        masks = [
            torch.zeros_like(result.low, dtype=torch.bool)
            if result.maybe_nan is None
            else result.maybe_nan
            for result in results
        ]
        return Bounds(low, high, torch.cat(masks, longest))

    def _bounds(self, terms: _Terms, format: ValueFormat, value_type: ValueFormat) -> Bounds:
        scores, error = self._scores(terms, format)
        axes = tuple(self.keys)
        largest = scores.amax(axes, keepdim=True)
        # Rows in which all keys are masked have no weights.
        largest = torch.where(largest == -torch.inf, 0.0, largest)
        below = largest - scores
        weights = torch.exp(-below)
        worst = error.amax(axes, keepdim=True)
        # Of the score and of the maximum; of their difference; of the exponentials.
        exponent_error = 2 * worst + FLOAT32_ROUNDING * below + (self.num_keys + 1) * _EXPONENTIAL
        weight_error = torch.where(weights == 0, 0.0, weights * torch.expm1(exponent_error))
        total = weights.sum(axes, keepdim=True)
        additions = (2 * self.num_keys + 2) * FLOAT32_ROUNDING
        total_error = weight_error.sum(axes, keepdim=True) + additions * total
        is_masked = total == 0
        total = torch.where(is_masked, 1.0, total)
        if terms.value is None:
            return self._logsumexp(largest, total, total_error, worst)
        return self._weighted(
            terms.value, value_type, weights, weight_error, total, total_error / total
        )

    def _scores(self, terms: _Terms, format: ValueFormat) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores, minus infinity where masked, and bounds of their errors."""
        scale = abs(self.scale)
        middles = [_middle(bounds) for bounds in (terms.query, terms.key)]
        sizes = [torch.maximum(b.low.abs(), b.high.abs()) for b in (terms.query, terms.key)]
        radii = [_radius(bounds) for bounds in (terms.query, terms.key)]
        scores = self.scale * contract(middles[0], middles[1], self.inner)
        magnitude = scale * contract(sizes[0], sizes[1], self.inner)
        error = (self.num_inner + 4) * FLOAT32_ROUNDING * magnitude
        # A query times the scale, in its format, may underflow.
        underflow = torch.full_like(sizes[0], format.underflow)
        error = error + contract(underflow, sizes[1], self.inner)
        if radii[0] is not None:
            error = error + scale * contract(radii[0], sizes[1], self.inner)
        if radii[1] is not None:
            error = error + scale * contract(middles[0].abs(), radii[1], self.inner)
        if terms.bias is not None:
            middle = _middle(terms.bias)
            radius = _radius(terms.bias)
            scores = scores + middle
            sizes_of_sum = torch.where(scores.isinf(), 0.0, scores.abs())
            error = error + FLOAT32_ROUNDING * sizes_of_sum
            if radius is not None:
                error = error + radius
        if terms.visible is not None:
            scores = torch.where(terms.visible, scores, -torch.inf)
        return scores, torch.where(scores == -torch.inf, 0.0, error.expand(scores.shape))

    def _logsumexp(
        self,
        largest: torch.Tensor,
        total: torch.Tensor,
        total_error: torch.Tensor,
        worst: torch.Tensor,
    ) -> Bounds:
        logarithm = torch.log(total)
        result = largest + logarithm
        error = worst + total_error / total
        error = error + 4 * FLOAT32_ROUNDING * (largest.abs() + logarithm.abs() + result.abs())
        return with_nan_unknown(Bounds(result - error, result + error))

    def _weighted(
        self,
        value: Bounds,
        value_type: ValueFormat,
        weights: torch.Tensor,
        weight_error: torch.Tensor,
        total: torch.Tensor,
        relative_total_error: torch.Tensor,
    ) -> Bounds:
        middle, radius = _middle(value), _radius(value)
        sizes = torch.maximum(value.low.abs(), value.high.abs())
        result = contract(weights, middle, self.keys) / total
        # The weights are rounded to the format of the values, and may underflow.
        rounding = 2.0 ** -(value_type.fraction_bits + 1)
        underflow = torch.full_like(weights, value_type.underflow)
        error = weight_error * (1 + rounding) + rounding * weights + underflow
        additions = (2 * self.num_keys + 2) * FLOAT32_ROUNDING
        error = contract(error + additions * weights, sizes, self.keys)
        if radius is not None:
            error = error + contract(weights, radius, self.keys)
        error = error / total + relative_total_error * result.abs()
        # Errors of higher order; a total whose error is as large as itself may be anything.
        error = error / (1 - relative_total_error).clamp(min=0)
        error = error + 2 * FLOAT32_ROUNDING * result.abs()
        return with_nan_unknown(Bounds(result - error, result + error))


def _middle(bounds: Bounds) -> torch.Tensor:
    if bounds.is_exact:
        return bounds.low
    middle = (bounds.low + bounds.high) / 2
    return torch.where(bounds.low == bounds.high, bounds.low, middle)


def _radius(bounds: Bounds) -> torch.Tensor | None:
    if bounds.is_exact:
        return None
    return torch.where(bounds.low == bounds.high, 0.0, (bounds.high - bounds.low) / 2)

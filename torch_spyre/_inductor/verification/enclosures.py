"""Bounds of the results of elementwise ops, from the bounds of their operands.

The record of an op states where its extremes are; its reference computes them. Results are exact
but for the error of float64: `value_formats.rounded` adds that of the card.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import torch

from torch_spyre._inductor.op_table import OpRecord
from torch_spyre._inductor.verification.bounds import Bounds, any_nan, hull
from torch_spyre._inductor.verification.value_formats import ValueFormat
from torch_spyre.errors import NoReferenceError

Reference = Callable[..., torch.Tensor]
Rule = Callable[[Reference, Sequence[Bounds], ValueFormat], Bounds]


def enclose(
    record: OpRecord, operands: Sequence[Bounds], constants: Sequence[float], format: ValueFormat
) -> Bounds:
    """Return the bounds of an elementwise op; `format` is that of the operands."""
    if record.reference is None:
        raise NoReferenceError(f"{record.name}, which has no reference")
    reference = record.reference

    def function(*values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = reference(*values, *constants)
        return result.to(torch.float64) if result.dtype is torch.bool else result

    extremes = record.extremes
    if extremes is None:
        if all(operand.is_exact and operand.maybe_nan is None for operand in operands):
            return Bounds.exact(function(*(operand.low for operand in operands)))
        raise NoReferenceError(f"{record.name} of operands that are known within bounds only")
    if extremes.rule is not None:
        return RULES[extremes.rule](function, operands, format)
    first, *further = operands
    maybe_nan = any_nan(*operands)
    if extremes.domain is not None:
        first, outside = _within(first, *extremes.domain)
        if outside is not None:
            maybe_nan = outside if maybe_nan is None else maybe_nan | outside
    turning_points = [
        torch.as_tensor(point, dtype=first.low.dtype) for point in extremes.turning_points
    ]
    result = _at_ends(function, (first, *further), turning_points, maybe_nan)
    return _unknown_where(result, _may_be_zero(operands[-1])) if extremes.has_pole else result


def _at_ends(
    function: Reference,
    operands: Sequence[Bounds],
    turning_points: Sequence[torch.Tensor] = (),
    maybe_nan: torch.Tensor | None = None,
) -> Bounds:
    """Evaluate a function at the ends of all operands, and at turning points of the first."""
    ends: list[list[torch.Tensor]] = [
        [operand.low] if operand.is_exact else [operand.low, operand.high] for operand in operands
    ]
    if len(ends[0]) == 2:
        first = operands[0]
        # A turning point outside of the interval becomes one of its ends.
        ends[0] += [
            torch.maximum(torch.minimum(point, first.high), first.low) for point in turning_points
        ]
    result = hull([function(*values) for values in itertools.product(*ends)], maybe_nan)
    if len(operands) == 1 or result.is_exact or not result.is_float:
        return result
    # Infinities may meet inside of the intervals, as in zero times infinity.
    is_unbounded = result.is_unbounded()
    if not bool(is_unbounded.any()):
        return result
    maybe_nan = is_unbounded if result.maybe_nan is None else result.maybe_nan | is_unbounded
    return Bounds(result.low, result.high, maybe_nan)


def _within(operand: Bounds, lowest: float, highest: float) -> tuple[Bounds, torch.Tensor | None]:
    """Return the part of an operand in a domain, and which elements may be outside of it."""
    if operand.is_exact:
        return operand, None
    outside = (operand.low < lowest) | (operand.high > highest)
    is_partly_inside = (operand.high >= lowest) & (operand.low <= highest)
    low = torch.where(is_partly_inside, operand.low.clamp(lowest, highest), operand.low)
    high = torch.where(is_partly_inside, operand.high.clamp(lowest, highest), operand.high)
    return Bounds(low, high, operand.maybe_nan), outside


def _unknown_where(result: Bounds, mask: torch.Tensor) -> Bounds:
    if not bool(mask.any()):
        return result
    unknown = Bounds.unknown((), is_float=result.is_float)
    low = torch.where(mask, unknown.low, result.low)
    high = torch.where(mask, unknown.high, result.high)
    maybe_nan = result.maybe_nan
    if result.is_float:
        maybe_nan = mask.expand(low.shape) if maybe_nan is None else maybe_nan | mask
    return Bounds(low, high, maybe_nan)


def _may_be_zero(operand: Bounds) -> torch.Tensor:
    """Return where an operand may be a zero, whose sign is then unknown: results round to it."""
    return (operand.low <= 0) & (operand.high >= 0)


def _truth(never: torch.Tensor, always: torch.Tensor) -> Bounds:
    """Return the bounds of a predicate that is false, true, or either."""
    low, high = always.to(torch.float64), (~never).to(torch.float64)
    return Bounds.exact(low) if torch.equal(low, high) else Bounds(low, high)


# --- Rules ----------------------------------------------------------------------------------------


def _integer_division(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    """The card's quotient by zero is zero."""
    dividend, divisor = operands

    def divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(y == 0, 0, function(x, torch.where(y == 0, 1, y)))

    result = _at_ends(divide, operands)
    return _unknown_where(result, _may_be_zero(divisor) & ~divisor.is_point)


def _remainder(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    """A remainder is monotone between two multiples of the divisor."""
    dividend, divisor = operands
    is_float = dividend.is_float

    def remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        # The card's remainder of an integer by zero is the dividend.
        if is_float:
            return function(x, y)
        return torch.where(y == 0, x, function(x, torch.where(y == 0, 1, y)))

    result = _at_ends(remainder, operands, (), any_nan(*operands))
    if dividend.is_exact and divisor.is_exact:
        return result
    safe_divisor = torch.where(divisor.low == 0, 1, divisor.low)
    ends = dividend.low, dividend.high
    # Remainders differ in the sign that they have; both are monotone between these.
    is_monotone = dividend.low.sign() == dividend.high.sign()
    for mode in ("floor", "trunc"):
        low, high = (torch.div(end, safe_divisor, rounding_mode=mode) for end in ends)
        is_monotone = is_monotone & (low == high)
    is_known = divisor.is_point & (is_monotone | dividend.is_point)
    return _unknown_where(result, ~is_known)


def _copysign(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    magnitude, sign = operands
    result = _at_ends(
        function, operands, (torch.zeros((), dtype=torch.float64),), any_nan(*operands)
    )
    largest = torch.maximum(magnitude.low.abs(), magnitude.high.abs())
    has_either_sign = _may_be_zero(sign)
    low = torch.where(has_either_sign, -largest, result.low)
    high = torch.where(has_either_sign, largest, result.high)
    return Bounds(low, high, result.maybe_nan)


def _bits(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    result = function(*(operand.low for operand in operands))
    is_known = operands[0].is_point
    for operand in operands[1:]:
        is_known = is_known & operand.is_point
    return _unknown_where(Bounds.exact(result), ~is_known)


def _left_shift(function: Reference, operands: Sequence[Bounds], format: ValueFormat) -> Bounds:
    """Shifts by the width or more, or by negative amounts, give zero."""

    def shift(x: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
        is_inside = (amount >= 0) & (amount < format.bits)
        return torch.where(is_inside, function(x, torch.where(is_inside, amount, 0)), 0)

    return _bits(shift, operands, format)


def _right_shift(function: Reference, operands: Sequence[Bounds], format: ValueFormat) -> Bounds:
    """Shifts by the width or more, or by negative amounts, give the sign."""

    def shift(x: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
        is_inside = (amount >= 0) & (amount < format.bits)
        return function(x, torch.where(is_inside, amount, format.bits - 1))

    return _bits(shift, operands, format)


def _periodic(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    """Sine or cosine: the extremes are multiples of half of pi apart."""
    (x,) = operands
    result = _at_ends(function, operands, (), any_nan(x))
    if x.is_exact:
        return result
    # Where the function is 1: at 0 for the cosine, at half of pi for the sine.
    peak = 0.0 if bool(function(torch.zeros(())) > 0.5) else math.pi / 2
    period = 2 * math.pi

    def contains(point: float) -> torch.Tensor:
        return ((x.high - point) / period).floor() >= ((x.low - point) / period).ceil()

    low = torch.where(contains(peak + math.pi), -1.0, result.low)
    high = torch.where(contains(peak), 1.0, result.high)
    # Infinite bounds have no sine.
    is_unknown = ~(x.low.isfinite() & x.high.isfinite())
    return _unknown_where(Bounds(low, high, result.maybe_nan), is_unknown & ~x.is_point)


def _power(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    base, exponent = operands
    zero = torch.zeros((), dtype=torch.float64)
    result = _at_ends(function, operands, (zero,), any_nan(*operands))
    is_whole = exponent.is_point & (exponent.low == exponent.low.round())
    is_known = (base.low > 0) | (base.is_point & exponent.is_point) | is_whole
    may_be_infinite = _may_be_zero(base) & (exponent.low < 0)
    return _unknown_where(result, ~is_known | may_be_infinite)


def _equality(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    """Compare for equality, or for a difference."""
    left, right = operands
    when_equal = bool(function(torch.zeros(()), torch.zeros(())))
    nan = left.may_be_nan | right.may_be_nan
    is_apart = (left.high < right.low) | (right.high < left.low)
    is_apart |= left.low.isnan() | right.low.isnan()
    is_same = left.is_point & right.is_point & (left.low == right.low) & ~nan
    return _truth(is_apart, is_same) if when_equal else _truth(is_same, is_apart)


def _order(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    """Comparisons are false for NaN."""
    result = _at_ends(function, operands)
    maybe_nan = any_nan(*operands)
    if maybe_nan is None:
        return result
    return Bounds(torch.where(maybe_nan, 0.0, result.low), result.high)


def _isnan(function: Reference, operands: Sequence[Bounds], _: ValueFormat) -> Bounds:
    (x,) = operands
    return _truth(~x.may_be_nan, x.low.isnan())


def _isinf(function: Reference, operands: Sequence[Bounds], format: ValueFormat) -> Bounds:
    """SEN169's largest code is its infinity."""
    (x,) = operands
    largest = format.largest
    never = (x.high < largest) & (x.low > -largest) | x.low.isnan()
    always = ((x.low >= largest) | (x.high <= -largest)) & ~x.may_be_nan
    return _truth(never, always)


def _selection(_: Reference, operands: Sequence[Bounds], __: ValueFormat) -> Bounds:
    condition, if_true, if_false = operands
    is_true, is_false = condition.low != 0, condition.high == 0
    maybe_nan = any_nan(if_true, if_false)
    if condition.is_exact:
        low = torch.where(is_true, if_true.low, if_false.low)
        if if_true.is_exact and if_false.is_exact:
            return Bounds(low, low, maybe_nan)
        return Bounds(low, torch.where(is_true, if_true.high, if_false.high), maybe_nan)
    either = hull([if_true.low, if_true.high, if_false.low, if_false.high], maybe_nan)
    low = torch.where(is_true, if_true.low, torch.where(is_false, if_false.low, either.low))
    high = torch.where(is_true, if_true.high, torch.where(is_false, if_false.high, either.high))
    return Bounds(low, high, either.maybe_nan)


RULES: Mapping[str, Rule] = {
    "bits": _bits,
    "copysign": _copysign,
    "equality": _equality,
    "integer division": _integer_division,
    "isinf": _isinf,
    "isnan": _isnan,
    "left shift": _left_shift,
    "order": _order,
    "periodic": _periodic,
    "power": _power,
    "remainder": _remainder,
    "right shift": _right_shift,
    "selection": _selection,
}

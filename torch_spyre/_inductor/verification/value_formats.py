"""Element formats of the card: decoding of bytes to float64 or int64, and rounding of bounds.

Rounding is by bit arithmetic on float64, and independent of the card's conversion kernels.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from torch_spyre import knobs
from torch_spyre._C import DataFormats
from torch_spyre._inductor.verification.bounds import Bounds
from torch_spyre.errors import NoReferenceError
from torch_spyre.testing import formats as golden

_F64_FRACTION_BITS = 52
# Bounds are widened by this much of a value for the rounding of the reference itself.
_REFERENCE_ERROR = 2.0**-49


@dataclass(frozen=True)
class ValueFormat:
    """An element format: how its codes are read, and how a value is rounded to it."""

    name: str
    bits: int
    is_float: bool
    # Floats: bits of the fraction, the exponent of the smallest normal number, the largest value.
    fraction_bits: int = 0
    smallest_exponent: int = 0
    largest: float = 0.0
    # The largest magnitude of a finite number: SEN169's largest code doubles as infinity.
    largest_finite: float = 0.0

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_sen169(self) -> bool:
        return self.name == "SEN169_FP16"

    @property
    def has_infinity(self) -> bool:
        return self.largest == np.inf

    @property
    def underflow(self) -> float:
        """The largest error of a result near zero. SEN169 has no subnormals."""
        if self.is_sen169:
            return 2.0**self.smallest_exponent
        return 2.0 ** (self.smallest_exponent - self.fraction_bits)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and highest integer."""
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


_SEN169 = ValueFormat(
    "SEN169_FP16",
    16,
    True,
    golden.SEN169_FRACTION_BITS,
    -golden.SEN169_BIAS,
    float(golden.sen169_values()[golden.SEN169_MAX]),
    float(golden.sen169_values()[golden.SEN169_MAX - 1]),
)
_IEEE_FP16 = ValueFormat("IEEE_FP16", 16, True, 10, -14, np.inf, 65504.0)
_FLOAT32 = ValueFormat(
    "IEEE_FP32", 32, True, 23, -126, np.inf, float(torch.finfo(torch.float32).max)
)
_FORMATS = {
    DataFormats.IEEE_FP32: _FLOAT32,
    DataFormats.SEN143_FP8: ValueFormat("SEN143_FP8", 8, True, 3, -6, 448.0, 448.0),
    DataFormats.SEN152_FP8: ValueFormat("SEN152_FP8", 8, True, 2, -15, 57344.0, 57344.0),
    DataFormats.SENINT8: ValueFormat("SENINT8", 8, False),
    DataFormats.SENINT16: ValueFormat("SENINT16", 16, False),
    DataFormats.IEEE_INT32: ValueFormat("IEEE_INT32", 32, False),
    DataFormats.SENUINT32: ValueFormat("SENUINT32", 32, False),
}


def value_format(format: DataFormats) -> ValueFormat:
    """Return the format of elements, 16-bit floats as the card computes them in this process."""
    if format is DataFormats.SEN169_FP16:
        return _IEEE_FP16 if knobs.emulator.fp16 == "ieee" else _SEN169
    if format not in _FORMATS:
        raise NoReferenceError(f"elements in the format {format.name}")
    return _FORMATS[format]


def float32_format() -> ValueFormat:
    return _FLOAT32


@cache
def _values_of_codes(name: str) -> torch.Tensor:
    """Return the value of every code of a float format of 8 or 16 bits."""
    if name == "IEEE_FP16":
        values_of_half = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
        return torch.from_numpy(values_of_half.astype(np.float64))
    values = {
        "SEN169_FP16": golden.sen169_values,
        "SEN143_FP8": golden.e4m3fn_values,
        "SEN152_FP8": golden.e5m2fnuz_values,
    }[name]()
    return torch.from_numpy(np.array(values))


def codes_of(memory: torch.Tensor, format: ValueFormat) -> torch.Tensor:
    """Return the elements of device memory, given as bytes, as codes."""
    dtype = {8: torch.uint8, 16: torch.int16, 32: torch.int32}[format.bits]
    usable = memory[: memory.numel() // format.bytes * format.bytes]
    return usable.view(dtype) if usable.numel() else torch.empty(0, dtype=dtype)


def decode(codes: torch.Tensor, format: ValueFormat) -> torch.Tensor:
    """Return the values of codes as the card computes with them, in float64 or int64."""
    if not format.is_float:
        signed = codes.view(torch.int8) if format.bits == 8 else codes
        return signed.to(torch.int64)
    if format.bits == 32:
        return codes.view(torch.float32).to(torch.float64)
    return _values_of_codes(format.name)[codes.to(torch.int64) & ((1 << format.bits) - 1)]


def encode(values: torch.Tensor, format: ValueFormat) -> torch.Tensor:
    """Return the codes of values that the format holds exactly, or of those nearest to them."""
    if not format.is_float:
        dtype = {8: torch.int8, 16: torch.int16, 32: torch.int32}[format.bits]
        return values.to(dtype)
    if format.bits == 32:
        return values.to(torch.float32).view(torch.int32)
    array = values.numpy()
    if format.is_sen169:
        return torch.from_numpy(golden.encode_sen169_result(array).view(np.int16))
    if format.bits == 16:
        with np.errstate(over="ignore"):
            return torch.from_numpy(array.astype(np.float16).view(np.int16))
    table = _values_of_codes(format.name).nan_to_num(nan=torch.inf)
    order = torch.argsort(table, stable=True)
    position = torch.searchsorted(table[order], values.contiguous()).clamp(max=len(order) - 1)
    return order[position].to(torch.uint8)


def nearest(values: torch.Tensor, format: ValueFormat) -> torch.Tensor:
    """Round to the nearest value of a float format, at a tie away from zero.

    The bounds that are rounded this way are wider than a tie, whichever way the format breaks it.
    Numbers beyond the largest finite one stay beyond it: see `_saturated`.
    """
    if format.bits == 32:
        return values.to(torch.float32).to(torch.float64)
    bits = values.view(torch.int64)
    dropped = _F64_FRACTION_BITS - format.fraction_bits
    rounded = ((bits + (1 << (dropped - 1))) & -(1 << dropped)).view(torch.float64)
    rounded = torch.where(values.isfinite(), rounded, values)
    magnitude = values.abs()
    if format.is_sen169:
        # The format has no subnormals: below its smallest number there is only zero.
        smallest = 2.0**format.smallest_exponent * (1 + 2.0**-format.fraction_bits)
        near_zero = torch.where(magnitude < smallest / 2, 0.0, smallest)
        return torch.where(magnitude < smallest, near_zero.copysign(values), rounded)
    spacing = 2.0 ** (format.smallest_exponent - format.fraction_bits)
    subnormal = (magnitude / spacing + 0.5).floor() * spacing
    is_subnormal = magnitude < 2.0**format.smallest_exponent
    return torch.where(is_subnormal, subnormal.copysign(values), rounded)


def units_in_last_place(values: torch.Tensor, format: ValueFormat) -> torch.Tensor:
    """Return the distance between neighbouring numbers of a float format around each value."""
    _, exponents = torch.frexp(values.abs())
    exponents = (exponents - 1).clamp(min=format.smallest_exponent)
    ulps = torch.ldexp(torch.ones_like(values), exponents - format.fraction_bits)
    return torch.where(values.isfinite(), ulps, 0.0)


def rounded(bounds: Bounds, format: ValueFormat, ulps: float = 0.5) -> Bounds:
    """Return the results within `ulps` units of the bounds that a card may store in a format.

    0 ulps is for results that the format holds. Integers wrap to the width of the format.
    """
    if not format.is_float:
        return _wrapped(bounds, format)
    bounds = bounds.monotone(lambda values: values.to(torch.float64))
    if ulps == 0:
        return bounds.monotone(lambda values: values.clamp(-format.largest, format.largest))
    lowest, _ = _widened(bounds.low, format, ulps)
    _, highest = _widened(bounds.high, format, ulps)
    low, high = nearest(lowest, format), nearest(highest, format)
    maybe_nan = bounds.maybe_nan
    if format.bits == 8:
        # PyTorch's conversions to float8 overflow to NaN, others saturate.
        overflows = (low < -format.largest) | (high > format.largest)
        maybe_nan = overflows if maybe_nan is None else maybe_nan | overflows
    low, high = _overflowed(low, format, -1.0), _overflowed(high, format, 1.0)
    if torch.equal(low, high):
        high = low
    return Bounds(low, high, maybe_nan)


def _widened(
    values: torch.Tensor, format: ValueFormat, ulps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return values that are lower and higher by the error of a result before its rounding."""
    error = _REFERENCE_ERROR * values.abs()
    if ulps > 0.5:
        error = error + (ulps - 0.5) * units_in_last_place(values, format)
    error = torch.where(values.isfinite(), error, 0.0)
    return values - error, values + error


def _overflowed(values: torch.Tensor, format: ValueFormat, direction: float) -> torch.Tensor:
    """Return the lowest or highest (direction -1 or 1) results for rounded values.

    Beyond SEN169's largest finite number, conversions return that, and arithmetic the largest code.
    """
    if format.bits == 32:
        return values
    if format.has_infinity:
        is_infinite = values.abs() > format.largest_finite
        return torch.where(is_infinite, torch.inf * values.sign(), values)
    outward, inward = direction * format.largest, -direction * format.largest_finite
    values = torch.where(direction * values > format.largest_finite, outward, values)
    return torch.where(direction * values < -format.largest_finite, inward, values)


def _wrapped(bounds: Bounds, format: ValueFormat) -> Bounds:
    """Return integers modulo the width of the format; unknown ones if some bounds wrap."""
    lowest, highest = format.limits
    if bounds.is_exact:
        return bounds.map(lambda values: (values - lowest) % (1 << format.bits) + lowest)
    fits = (bounds.low >= lowest) & (bounds.high <= highest)
    is_point = bounds.low == bounds.high
    low, high = (
        torch.where(
            fits,
            side,
            torch.where(is_point, (side - lowest) % (1 << format.bits) + lowest, limit),
        )
        for side, limit in ((bounds.low, lowest), (bounds.high, highest))
    )
    return Bounds(low, high)


def converted(bounds: Bounds, source: ValueFormat, target: ValueFormat) -> Bounds:
    """Return the values of one format converted to another, as kernels convert them."""
    if source == target:
        return bounds
    if not target.is_float:
        return rounded(_to_integers(bounds) if bounds.is_float else bounds, target)
    if source.is_sen169:
        # Conversions read the largest code as infinity.
        bounds = bounds.monotone(
            lambda values: torch.where(
                values.abs() == source.largest, torch.inf * values.sign(), values
            )
        )
    if target.is_sen169 and bounds.is_float:
        # Infinity is the largest code; it is not the result of an overflow.
        is_infinite = [side.isinf() for side in (bounds.low, bounds.high)]
        result = rounded(bounds, target)
        if not bool(is_infinite[0].any() or is_infinite[1].any()):
            return result
        low = torch.where(is_infinite[0], bounds.low.sign() * target.largest, result.low)
        high = torch.where(is_infinite[1], bounds.high.sign() * target.largest, result.high)
        return Bounds(low, high, result.maybe_nan)
    return rounded(bounds, target)


def _to_integers(bounds: Bounds) -> Bounds:
    """Convert floats towards zero; NaN, and numbers beyond 32 bits, give the lowest integer."""
    lowest, end = -(2.0**31), 2.0**31

    def convert(values: torch.Tensor) -> torch.Tensor:
        fits = (values >= lowest) & (values < end)
        return torch.where(fits, values, lowest).trunc().to(torch.int64)

    low = convert(bounds.low)
    if bounds.is_exact and bounds.maybe_nan is None:
        return Bounds.exact(low)
    high = convert(bounds.high)
    is_uncertain = bounds.may_be_nan | (bounds.low < lowest) | (bounds.high >= end)
    is_uncertain &= ~bounds.is_point
    low = torch.where(is_uncertain, int(lowest), low)
    return Bounds(low, torch.where(is_uncertain, int(end) - 1, high))


def to_bool(bounds: Bounds) -> Bounds:
    """Return whether each value is not zero, as 0 and 1."""
    zero = (bounds.low == 0) & (bounds.high == 0)
    high = (~zero).to(torch.float64)
    if bounds.is_exact and bounds.maybe_nan is None:
        return Bounds.exact(high)
    may_be_zero = (bounds.low <= 0) & (bounds.high >= 0)
    maybe_nan = bounds.maybe_nan
    if maybe_nan is not None:
        high = torch.where(maybe_nan, 1.0, high)
    return Bounds((~may_be_zero).to(torch.float64), high)

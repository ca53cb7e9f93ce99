"""The reference model of the card's element formats.

A *code* is the unsigned integer in device memory; a *value* is the float64 that it encodes. Every
conversion is a search in a table of exact values or integer arithmetic. The 16-bit float format is
the published DLFloat.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from torch_spyre.dtype_table import FORMATS
from torch_spyre.dtypes import RECORDS

Codes = NDArray[np.unsignedinteger]
Values = NDArray[np.float64]

BYTES_IN_STICK = 128

SEN169_BIAS = 31
SEN169_FRACTION_BITS = 9
SEN169_NAN = 0x7FFF
SEN169_MAX = 0x7FFE
_SIGN = 0x8000


@dataclass(frozen=True)
class DeviceFormat:
    """An element format in device memory, with its name in `DataFormats`."""

    name: str
    bits: int

    @property
    def code_dtype(self) -> np.dtype[np.unsignedinteger]:
        return np.dtype(f"uint{self.bits}")

    @property
    def elements_per_stick(self) -> int:
        return BYTES_IN_STICK * 8 // self.bits


_FORMATS = {record.name: DeviceFormat(record.name, record.bits) for record in FORMATS.values()}
SEN169_FP16 = _FORMATS["SEN169_FP16"]
IEEE_FP32 = _FORMATS["IEEE_FP32"]
SEN143_FP8 = _FORMATS["SEN143_FP8"]
SEN152_FP8 = _FORMATS["SEN152_FP8"]

# Quantized dtypes have the format of their integers and no entry here.
DEVICE_FORMATS: dict[torch.dtype, DeviceFormat] = {
    dtype: _FORMATS[record.device_format]
    for dtype, record in RECORDS.items()
    if record.device_format is not None
}


def device_format(dtype: torch.dtype) -> DeviceFormat:
    """Return the format of a dtype; raise ValueError if the card has none."""
    if dtype not in DEVICE_FORMATS:
        raise ValueError(f"the card has no format for {dtype}")
    return DEVICE_FORMATS[dtype]


# --- SEN169_FP16: sign 1, exponent 6, fraction 9 --------------------------------------------------


def _sen169_value(code: int) -> float:
    sign = -1.0 if code & _SIGN else 1.0
    exponent = code >> SEN169_FRACTION_BITS & 0x3F
    fraction = code & 0x1FF
    if code & 0x7FFF == 0:
        return sign * 0.0
    if code & 0x7FFF == SEN169_NAN:
        return float("nan")
    # Exponent 0 is not special: the format has no subnormals.
    return sign * 2.0 ** (exponent - SEN169_BIAS) * (1 + fraction / 512)


@cache
def sen169_values() -> Values:
    """Return the value of each of the 65,536 codes; NaN at the two NaN codes."""
    values = np.array([_sen169_value(code) for code in range(1 << 16)])
    values.flags.writeable = False
    return values


@cache
def _sen169_midpoints() -> Values:
    """Return the midpoints between consecutive magnitude codes, exact in float64."""
    magnitudes = sen169_values()[: SEN169_MAX + 1]
    return (magnitudes[:-1] + magnitudes[1:]) / 2


def encode_sen169(values: ArrayLike) -> NDArray[np.uint16]:
    """Encode as conversions do: the largest code is infinity, finite values saturate below it."""
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        exact = np.asarray(values, dtype=np.float64)
    largest = sen169_values()[SEN169_MAX - 1]
    saturated = np.where(np.isfinite(exact), np.clip(exact, -largest, largest), exact)
    return encode_sen169_result(saturated)


def encode_sen169_result(values: ArrayLike) -> NDArray[np.uint16]:
    """Encode as arithmetic does: the nearest code, ties away from zero, saturating."""
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        exact = np.asarray(values, dtype=np.float64)
    # Magnitude codes are monotonic in their values, so the code is the number of midpoints below.
    magnitude = np.searchsorted(_sen169_midpoints(), np.abs(exact), side="right")
    signed = np.where(np.signbit(exact), magnitude | _SIGN, magnitude)
    return np.where(np.isnan(exact), SEN169_NAN, signed).astype(np.uint16)


def decode_sen169(codes: ArrayLike) -> Values:
    """Return the values that arithmetic on the card uses: 0x7FFE is 8573157376, not infinity."""
    return np.asarray(sen169_values()[np.asarray(codes, dtype=np.uint16)])


def round_to_sen169(values: ArrayLike) -> Values:
    """Round each value to the nearest SEN169 value."""
    return decode_sen169(encode_sen169_result(values))


def sen169_to_host(codes: ArrayLike, dtype: torch.dtype) -> torch.Tensor:
    """Convert codes to a host tensor of a float dtype: the largest code becomes infinity."""
    values = decode_sen169(codes)
    # Every value is exact in float32, so the cast through float32 rounds only once.
    return torch.from_numpy(largest_to_infinity(values)).to(torch.float32).to(dtype)


def largest_to_infinity(values: Values) -> Values:
    largest = sen169_values()[SEN169_MAX]
    return np.where(np.abs(values) >= largest, np.copysign(np.inf, values), values)


# --- FP8 ------------------------------------------------------------------------------------------


def _fp8_values(fraction_bits: int, bias: int, nan_codes: set[int]) -> Values:
    def value(code: int) -> float:
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code & 0x7F) >> fraction_bits
        fraction = (code & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
        if code in nan_codes:
            return float("nan")
        if exponent == 0:
            return sign * 2.0 ** (1 - bias) * fraction
        return sign * 2.0 ** (exponent - bias) * (1 + fraction)

    return np.array([value(code) for code in range(1 << 8)])


@cache
def e4m3fn_values() -> Values:
    """Return the values of SEN143_FP8: bias 7, no infinity, NaN at all ones, maximum 448."""
    return _fp8_values(fraction_bits=3, bias=7, nan_codes={0x7F, 0xFF})


@cache
def e5m2fnuz_values() -> Values:
    """Return the values of SEN152_FP8: bias 16, no infinity, NaN at the code of negative zero."""
    return _fp8_values(fraction_bits=2, bias=16, nan_codes={0x80})


# --- Copies of tensors ----------------------------------------------------------------------------


def store(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Codes:
    """Return the codes of a host tensor copied to a device tensor of `dtype` (default: its own)."""
    dtype = dtype or tensor.dtype
    target = device_format(dtype)
    host = tensor.detach().contiguous()
    if target == SEN169_FP16:
        return encode_sen169(host.to(torch.float64).numpy())
    if target == IEEE_FP32:
        return host.to(torch.float32).numpy().view(np.uint32)
    if dtype != tensor.dtype:
        raise ValueError(f"the card does not convert {tensor.dtype} to {dtype} while copying")
    if target in (SEN143_FP8, SEN152_FP8):
        return host.view(torch.uint8).numpy()
    # Integers are truncated to the low bits, so int64 wraps modulo 2**32.
    mask = (1 << target.bits) - 1
    return np.asarray(host.numpy().astype(np.int64) & mask, dtype=target.code_dtype)


def load(codes: Codes, dtype: torch.dtype) -> torch.Tensor:
    """Return the host tensor copied from a device tensor of the same dtype."""
    source = device_format(dtype)
    codes = np.array(codes, dtype=source.code_dtype, order="C")
    if dtype == torch.bool:
        return sen169_to_host(codes, torch.float32) != 0
    if source == SEN169_FP16:
        return sen169_to_host(codes, dtype)
    if source == IEEE_FP32:
        return torch.from_numpy(codes.view(np.float32))
    if source in (SEN143_FP8, SEN152_FP8):
        return torch.from_numpy(codes).view(dtype)
    signed = codes.view(f"int{source.bits}")
    return torch.from_numpy(signed).to(dtype)


# --- Comparing results ----------------------------------------------------------------------------


def sen169_ulp(values: ArrayLike) -> Values:
    """Return the ulp at each value: the distance between the two adjacent SEN169 values.

    Below the smallest positive value it is that value; beyond the largest, the last distance.
    """
    magnitudes = sen169_values()[: SEN169_MAX + 1]
    exact = np.asarray(values, dtype=np.float64)
    below = np.searchsorted(magnitudes, np.abs(exact), side="right") - 1
    below = np.minimum(below, SEN169_MAX - 1)
    return np.where(np.isnan(exact), np.nan, magnitudes[below + 1] - magnitudes[below])


def assert_close_sen169(
    actual: torch.Tensor, expected: torch.Tensor | ArrayLike, max_ulps: float
) -> None:
    """Assert that `actual` is within `max_ulps` ulps of the exact `expected`.

    Beyond that, it may differ only by the copy to the host: rounding to the dtype of `actual`, and
    conversion of the largest code to infinity.
    """
    host = actual.detach().cpu()
    exact = _saturated(expected)
    if tuple(host.shape) != exact.shape:
        raise AssertionError(f"shape {tuple(host.shape)}, expected {exact.shape}")
    ulp = sen169_ulp(exact)
    values = host.to(torch.float64).numpy()
    lowest = _copied_to_host(exact - max_ulps * ulp, host.dtype)
    highest = _copied_to_host(exact + max_ulps * ulp, host.dtype)
    is_within = (lowest <= values) & (values <= highest)
    is_close = is_within | (np.isnan(values) & np.isnan(exact))
    if not is_close.all():
        raise AssertionError(_describe_worst(values, exact, ulp, ~is_close, max_ulps))


def _saturated(expected: torch.Tensor | ArrayLike) -> Values:
    largest = sen169_values()[SEN169_MAX]
    if isinstance(expected, torch.Tensor):
        expected = expected.detach().cpu().to(torch.float64).numpy()
    return np.clip(np.asarray(expected, dtype=np.float64), -largest, largest)


def _copied_to_host(values: Values, dtype: torch.dtype) -> Values:
    read = torch.from_numpy(largest_to_infinity(values)).to(dtype).to(torch.float64)
    return np.asarray(read.numpy(), dtype=np.float64)


def _describe_worst(
    values: Values, exact: Values, ulp: Values, is_wrong: NDArray[np.bool_], max_ulps: float
) -> str:
    distance = np.abs(values - exact) / ulp
    # A NaN on one side only counts as infinite distance.
    distance = np.where(np.isnan(distance), np.inf, distance)
    worst = np.unravel_index(np.argmax(np.where(is_wrong, distance, -1.0)), exact.shape)
    index = tuple(int(i) for i in worst)
    codes = [encode_sen169_result(array[worst]) for array in (values, exact)]
    return (
        f"{int(is_wrong.sum())} of {is_wrong.size} elements differ by more than "
        f"{max_ulps:g} ulps; the worst at {index}: "
        f"got {values[worst]:.10g} (code {int(codes[0]):#06x}), "
        f"expected {exact[worst]:.10g} (code {int(codes[1]):#06x}), "
        f"{distance[worst]:.6g} ulps away"
    )

"""The golden model of the card's number formats.

A *code* is the unsigned integer that lies in device memory; a *value* is the float64 it stands
for. Every conversion here is a search in a table of exact values or plain integer arithmetic.
The format is the published DLFloat one.
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
SEN169_LARGEST = 0x7FFE
_SIGN = 0x8000


@dataclass(frozen=True)
class DeviceFormat:
    """A format as it lies in device memory, under the name `DataFormats` gives it."""

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

# Quantised dtypes share the format of their integers and hold no values here.
DEVICE_FORMATS: dict[torch.dtype, DeviceFormat] = {
    dtype: _FORMATS[record.device_format]
    for dtype, record in RECORDS.items()
    if record.device_format is not None
}


def device_format(dtype: torch.dtype) -> DeviceFormat:
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
    # Exponent 0 is a binade like any other: the format has no subnormal numbers.
    return sign * 2.0 ** (exponent - SEN169_BIAS) * (1 + fraction / 512)


@cache
def sen169_values() -> Values:
    """The value of each of the 65,536 codes; NaN at the two NaN codes."""
    values = np.array([_sen169_value(code) for code in range(1 << 16)])
    values.flags.writeable = False
    return values


@cache
def _sen169_midpoints() -> Values:
    """Halfway between each magnitude code and the next; exact in float64."""
    magnitudes = sen169_values()[: SEN169_LARGEST + 1]
    return (magnitudes[:-1] + magnitudes[1:]) / 2


def encode_sen169(values: ArrayLike) -> NDArray[np.uint16]:
    """What a conversion gives: the largest code is infinity, what is finite stays below it."""
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        exact = np.asarray(values, dtype=np.float64)
    largest = sen169_values()[SEN169_LARGEST - 1]
    fitting = np.where(np.isfinite(exact), np.clip(exact, -largest, largest), exact)
    return encode_sen169_result(fitting)


def encode_sen169_result(values: ArrayLike) -> NDArray[np.uint16]:
    """What arithmetic gives: the nearest code, ties away from zero; too large is the largest."""
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        exact = np.asarray(values, dtype=np.float64)
    # Magnitude codes ascend with their values, so the code is the number of midpoints reached.
    magnitude = np.searchsorted(_sen169_midpoints(), np.abs(exact), side="right")
    signed = np.where(np.signbit(exact), magnitude | _SIGN, magnitude)
    return np.where(np.isnan(exact), SEN169_NAN, signed).astype(np.uint16)


def decode_sen169(codes: ArrayLike) -> Values:
    """The exact numbers inside the card: 0x7FFE is 8573157376, not infinity."""
    return np.asarray(sen169_values()[np.asarray(codes, dtype=np.uint16)])


def round_to_sen169(values: ArrayLike) -> Values:
    """The number the card would hold in place of each value."""
    return decode_sen169(encode_sen169_result(values))


def sen169_to_host(codes: ArrayLike, dtype: torch.dtype) -> torch.Tensor:
    """What a host tensor of a float dtype receives: the largest code reads as infinity."""
    values = decode_sen169(codes)
    # Every value is exact in float32, so casting by way of it still rounds only once.
    return torch.from_numpy(largest_to_infinity(values)).to(torch.float32).to(dtype)


def largest_to_infinity(values: Values) -> Values:
    largest = sen169_values()[SEN169_LARGEST]
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
    """SEN143_FP8: bias 7, no infinity, NaN at all ones, largest 448."""
    return _fp8_values(fraction_bits=3, bias=7, nan_codes={0x7F, 0xFF})


@cache
def e5m2fnuz_values() -> Values:
    """SEN152_FP8: bias 16, no infinity and no negative zero, NaN in the latter's place."""
    return _fp8_values(fraction_bits=2, bias=16, nan_codes={0x80})


# --- Tensors in and out ---------------------------------------------------------------------------


def store(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Codes:
    """The codes of a host tensor once copied to a device tensor of `dtype` (default: its own)."""
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
    # Integers: only the low bits of the slot are kept, so int64 wraps modulo 2**32.
    kept = (1 << target.bits) - 1
    return np.asarray(host.numpy().astype(np.int64) & kept, dtype=target.code_dtype)


def load(codes: Codes, dtype: torch.dtype) -> torch.Tensor:
    """The host tensor read from a device tensor of the same dtype."""
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
    """The gap between the two codes around each value: one unit in the last place there.

    Below the smallest positive number the gap is that number; beyond the largest, the last gap.
    """
    magnitudes = sen169_values()[: SEN169_LARGEST + 1]
    exact = np.asarray(values, dtype=np.float64)
    below = np.searchsorted(magnitudes, np.abs(exact), side="right") - 1
    below = np.minimum(below, SEN169_LARGEST - 1)
    return np.where(np.isnan(exact), np.nan, magnitudes[below + 1] - magnitudes[below])


def assert_close_sen169(
    actual: torch.Tensor, expected: torch.Tensor | ArrayLike, max_ulps: float
) -> None:
    """`actual`, read back to the host, is within `max_ulps` last places of the exact `expected`.

    The room is widened only by what reading back may do: round into the dtype of `actual`, and
    turn the largest code into infinity.
    """
    got = actual.detach().cpu()
    exact = _saturated(expected)
    if tuple(got.shape) != exact.shape:
        raise AssertionError(f"shape {tuple(got.shape)}, expected {exact.shape}")
    ulp = sen169_ulp(exact)
    numbers = got.to(torch.float64).numpy()
    lowest = _read_back(exact - max_ulps * ulp, got.dtype)
    highest = _read_back(exact + max_ulps * ulp, got.dtype)
    within = (lowest <= numbers) & (numbers <= highest)
    good = within | (np.isnan(numbers) & np.isnan(exact))
    if not good.all():
        raise AssertionError(_describe_worst(numbers, exact, ulp, ~good, max_ulps))


def _saturated(expected: torch.Tensor | ArrayLike) -> Values:
    largest = sen169_values()[SEN169_LARGEST]
    if isinstance(expected, torch.Tensor):
        expected = expected.detach().cpu().to(torch.float64).numpy()
    return np.clip(np.asarray(expected, dtype=np.float64), -largest, largest)


def _read_back(values: Values, dtype: torch.dtype) -> Values:
    read = torch.from_numpy(largest_to_infinity(values)).to(dtype).to(torch.float64)
    return np.asarray(read.numpy(), dtype=np.float64)


def _describe_worst(
    numbers: Values, exact: Values, ulp: Values, bad: NDArray[np.bool_], max_ulps: float
) -> str:
    distance = np.abs(numbers - exact) / ulp
    # A NaN on one side only is worse than any number.
    distance = np.where(np.isnan(distance), np.inf, distance)
    worst = np.unravel_index(np.argmax(np.where(bad, distance, -1.0)), exact.shape)
    where = tuple(int(i) for i in worst)
    got, wanted = (encode_sen169_result(each[worst]) for each in (numbers, exact))
    return (
        f"{int(bad.sum())} of {bad.size} elements are more than {max_ulps:g} last places off; "
        f"the worst at {where}: got {numbers[worst]:.10g} (code {int(got):#06x}), "
        f"expected {exact[worst]:.10g} (code {int(wanted):#06x}), "
        f"{distance[worst]:.6g} last places away"
    )

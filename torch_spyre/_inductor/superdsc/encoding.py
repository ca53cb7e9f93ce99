"""Constants of ops as the bits that a SuperDSC file holds."""

import math
import struct

import torch  # noqa: F401  # its libraries are those that _C needs

from torch_spyre._C import DataFormats, encode_constant

MASK_CONSTANT = "samv-maskvalue"

_HALF = DataFormats.SEN169_FP16
_SINGLE = DataFormats.IEEE_FP32
_EXPONENT_BIAS = 31
_FRACTION = 0x1FF
_NOT_A_NUMBER = 0x7FFF


def constant_format(op_format: DataFormats) -> DataFormats:
    """In which constants of an op are held: single precision where elements have four bytes."""
    return _SINGLE if op_format.elems_per_stick() == _SINGLE.elems_per_stick() else _HALF


def mask_value(op: str) -> float:
    """What padding must hold so that the reduction does not notice it."""
    return {"max": -math.inf, "min": math.inf}.get(op, 0.0)


def encoded(number: float, data_format: DataFormats) -> int:
    return int(encode_constant(float(number), data_format))


def decoded(bits: int, data_format: DataFormats) -> float:
    if data_format == _SINGLE:
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    sign = -1.0 if bits >> 15 else 1.0
    magnitude = bits & 0x7FFF
    if magnitude == 0:
        return sign * 0.0
    if magnitude == _NOT_A_NUMBER:
        return math.nan
    # The format has no subnormal numbers: exponent 0 is a binade like any other.
    return sign * math.ldexp(1 + (bits & _FRACTION) / 512, (magnitude >> 9) - _EXPONENT_BIAS)


def bits_limit(data_format: DataFormats) -> int:
    """Codes are below this."""
    return 1 << 32 if data_format == _SINGLE else 1 << 16

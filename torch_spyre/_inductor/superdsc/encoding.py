"""Constants of ops as the bits that a SuperDSC file holds."""

import math
import struct

import torch  # noqa: F401  # its libraries are those that _C needs

from torch_spyre._C import DataFormats, encode_constant
from torch_spyre._inductor.op_table import find_record

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
    """Return the value of padding that leaves the result of a reduction unchanged."""
    record = find_record(op)
    # Files of the public inventory are masked; reductions of ours slice their padding off.
    if record is None or record.reduction is None or not record.is_public:
        return 0.0
    return record.reduction.initial


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

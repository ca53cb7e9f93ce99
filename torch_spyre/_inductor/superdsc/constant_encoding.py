"""Encodes constants of ops as the bits in a SuperDSC file, and decodes them."""

import math
import struct

import torch  # noqa: F401  # loads the libraries that _C needs

from torch_spyre._C import DataFormats, encode_constant
from torch_spyre._inductor.op_table import find_record
from torch_spyre.dtype_table import FORMATS

MASK_CONSTANT = "samv-maskvalue"

_FP16 = DataFormats.SEN169_FP16
_FP32 = DataFormats.IEEE_FP32
_EXPONENT_BIAS = 31
_MANTISSA_MASK = 0x1FF
_NAN = 0x7FFF


def constant_format(op_format: DataFormats) -> DataFormats:
    """Return the format of an op's constants: fp32 if its elements have four bytes, else fp16."""
    return _FP32 if op_format.elems_per_stick() == _FP32.elems_per_stick() else _FP16


def mask_value(op: str) -> float:
    """Return the padding value that leaves the result of a reduction unchanged."""
    record = find_record(op)
    # Only reductions of the public inventory are masked; for others, KTIR slices off the padding.
    if record is None or record.reduction is None or not record.is_public:
        return 0.0
    return record.reduction.initial


def encode(value: float, data_format: DataFormats) -> int:
    """Return the bits of a value in a data format."""
    return int(encode_constant(float(value), data_format))


def decode(bits: int, data_format: DataFormats) -> float:
    """Return the value of bits in a data format."""
    if data_format == _FP32:
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    sign = -1.0 if bits >> 15 else 1.0
    magnitude = bits & 0x7FFF
    if magnitude == 0:
        return sign * 0.0
    if magnitude == _NAN:
        return math.nan
    # The format has no subnormals: exponent 0 is an ordinary binade.
    return sign * math.ldexp(1 + (bits & _MANTISSA_MASK) / 512, (magnitude >> 9) - _EXPONENT_BIAS)


def num_codes(data_format: DataFormats) -> int:
    """Return the number of bit patterns of the format."""
    return 1 << FORMATS[data_format.name].bits

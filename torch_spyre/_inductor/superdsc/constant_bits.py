"""Encodes constants as bits of a data format, and decodes them."""

import math
import struct

import torch

from torch_spyre._C import DataFormats, encode_constant
from torch_spyre.dtype_table import FORMATS

_FP16 = DataFormats.SEN169_FP16
_FP32 = DataFormats.IEEE_FP32
_INT32 = DataFormats.IEEE_INT32
_EXPONENT_BIAS = 31
_MANTISSA_MASK = 0x1FF
_NAN = 0x7FFF


def encode(value: float, data_format: DataFormats) -> int:
    """Return the bits of a value in a data format."""
    if data_format == _INT32:
        return int(value) & 0xFFFF_FFFF
    # Programs contain constants as fp32, from which they convert them.
    return int(encode_constant(_single(float(value)), data_format))


def _single(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float32))


def decode(bits: int, data_format: DataFormats) -> float:
    """Return the value of bits in a data format."""
    if data_format == _FP32:
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    if data_format == _INT32:
        return int(struct.unpack("<i", struct.pack("<I", bits))[0])
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

"""The table of dtypes: how the card stores every torch dtype and whether it computes with it.

The module does not import torch, so that command-line tools can read the table quickly;
`torch_spyre.dtypes` has the same records by torch dtype. `csrc/torch/dtypes.cpp` is the C++ side's
table, and `tests/test_dtypes.py` fails where the two differ. `docs/adding-a-dtype.md` explains how
to add a row.
"""

from dataclasses import dataclass
from enum import Enum, auto

BITS_IN_STICK = 128 * 8


class DtypeKind(Enum):
    """The class of values that a dtype holds."""

    HALF = auto()  # 16-bit floats
    FLOAT = auto()
    FLOAT8 = auto()
    INTEGER = auto()
    BOOL = auto()
    COMPLEX = auto()


class Support(Enum):
    """How far the card supports a dtype."""

    COMPUTE = auto()  # kernels compute with it
    STORAGE = auto()  # kernels only move and convert it
    ARRAY = auto()  # no tensors; hand-written kernels address arrays of it
    NONE = auto()  # on the host only


@dataclass(frozen=True)
class FormatRecord:
    """A format of elements in device memory, under its name in `DataFormats`."""

    name: str
    bits: int
    ktir_type: str

    @property
    def elements_per_stick(self) -> int:
        return BITS_IN_STICK // self.bits


@dataclass(frozen=True)
class DtypeRecord:
    """One torch dtype. Fields that do not apply are None."""

    name: str  # the attribute of the `torch` module
    abbreviation: str  # in reports
    kind: DtypeKind
    support: Support
    # The format of its tensors in device memory; a key of FORMATS.
    device_format: str | None
    # The type of its elements in programs: the name of a member of backend.program's ElementType.
    element_type: str | None
    is_in_numpy: bool = True
    # The unit in the last place of results around 1, as the card rounds them.
    unit_in_last_place: float | None = None
    # Whether `spyre opinfo` runs PyTorch's op database in it: one dtype per kind is enough.
    is_sampled: bool = False
    # The format of its tensors with TORCH_SPYRE_UNSUPPORTED_DTYPE=store: the host's bits.
    raw_format: str | None = None


FORMATS = {
    record.name: record
    for record in (
        FormatRecord("SEN169_FP16", 16, "f16"),
        FormatRecord("IEEE_FP32", 32, "f32"),
        FormatRecord("SEN143_FP8", 8, "f8E4M3FN"),
        FormatRecord("SEN152_FP8", 8, "f8E5M2FNUZ"),
        FormatRecord("SENINT8", 8, "i8"),
        FormatRecord("SENINT16", 16, "i16"),
        FormatRecord("IEEE_INT32", 32, "i32"),
        FormatRecord("SENUINT32", 32, "i32"),
        # Not the format of a tensor, but of indices in KTIR files.
        FormatRecord("IEEE_INT64", 64, "i64"),
    )
}

_HALF, _FLOAT, _FLOAT8 = DtypeKind.HALF, DtypeKind.FLOAT, DtypeKind.FLOAT8
_INTEGER, _BOOL, _COMPLEX = DtypeKind.INTEGER, DtypeKind.BOOL, DtypeKind.COMPLEX
_COMPUTE, _STORAGE, _ARRAY = Support.COMPUTE, Support.STORAGE, Support.ARRAY


def _host_only(
    name: str, abbreviation: str, kind: DtypeKind, raw_format: str, is_in_numpy: bool = True
) -> DtypeRecord:
    return DtypeRecord(
        name, abbreviation, kind, Support.NONE, None, None, is_in_numpy, raw_format=raw_format
    )


# If several dtypes have the same element type, arrays of that type are read as the first of them.
DTYPES = (
    # SEN169 has 9 fraction bits, of which a bfloat16 host tensor holds 7. Functions in float32 have
    # an error of a whole unit, where a single rounding has half of one: its unit counts double.
    DtypeRecord("float16", "f16", _HALF, _COMPUTE, "SEN169_FP16", "F16", True, 2.0**-9, True),
    DtypeRecord("bfloat16", "bf16", _HALF, _COMPUTE, "SEN169_FP16", "BF16", False, 2.0**-7),
    DtypeRecord("float32", "f32", _FLOAT, _COMPUTE, "IEEE_FP32", "F32", True, 2.0**-22, True),
    DtypeRecord("int8", "i8", _INTEGER, _COMPUTE, "SENINT8", "I8"),
    DtypeRecord("int16", "i16", _INTEGER, _COMPUTE, "SENINT16", "I16"),
    DtypeRecord("int32", "i32", _INTEGER, _COMPUTE, "IEEE_INT32", "I32"),
    DtypeRecord("int64", "i64", _INTEGER, _COMPUTE, "IEEE_INT32", "I64", is_sampled=True),
    DtypeRecord("uint8", "u8", _INTEGER, _COMPUTE, "SENUINT32", "I8"),
    DtypeRecord("bool", "bool", _BOOL, _COMPUTE, "SEN169_FP16", "I1", is_sampled=True),
    DtypeRecord("float8_e4m3fn", "float8_e4m3fn", _FLOAT8, _STORAGE, "SEN143_FP8", "F8E4M3", False),
    DtypeRecord(
        "float8_e5m2fnuz", "float8_e5m2fnuz", _FLOAT8, _STORAGE, "SEN152_FP8", "F8E5M2", False
    ),
    DtypeRecord("uint16", "uint16", _INTEGER, _ARRAY, None, "I16", raw_format="RAW16"),
    DtypeRecord("uint32", "uint32", _INTEGER, _ARRAY, None, "I32", raw_format="RAW32"),
    DtypeRecord("uint64", "uint64", _INTEGER, _ARRAY, None, "I64", raw_format="RAW64"),
    _host_only("float64", "f64", _FLOAT, "RAW64"),
    _host_only("complex32", "c32", _COMPLEX, "RAW32", is_in_numpy=False),
    _host_only("complex64", "c64", _COMPLEX, "RAW64"),
    _host_only("complex128", "c128", _COMPLEX, "RAW128"),
    _host_only("float8_e5m2", "float8_e5m2", _FLOAT8, "RAW8", is_in_numpy=False),
    _host_only("float8_e4m3fnuz", "float8_e4m3fnuz", _FLOAT8, "RAW8", is_in_numpy=False),
    _host_only("float8_e8m0fnu", "float8_e8m0fnu", _FLOAT8, "RAW8", is_in_numpy=False),
)

"""The table of dtypes agrees with the C++ side, with what is derived from it, and with the docs."""

import re
from pathlib import Path

import pytest
import torch

from torch_spyre import _C, dtypes, knobs
from torch_spyre._inductor.to_ktir.types import element_type
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.dtype_table import DTYPES, FORMATS, DtypeKind, Support
from torch_spyre.opinfo.results import DTYPES as OPINFO_DTYPES

DOCS = Path(__file__).resolve().parents[1] / "docs"
QUANTIZED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
TORCH_DTYPES = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}


@pytest.mark.parametrize("dtype", sorted(TORCH_DTYPES - QUANTIZED, key=str), ids=str)
def test_both_sides_store_a_dtype_in_the_same_format(dtype):
    format = dtypes.device_format(dtype)
    expected = "INVALID" if format is None else format.name
    assert _C.get_device_dtype(dtype).name == expected


@pytest.mark.parametrize("record", DTYPES, ids=lambda record: record.name)
def test_both_sides_store_unsupported_dtypes_in_the_same_format_on_request(record):
    dtype = getattr(torch, record.name)
    with knobs.override(TORCH_SPYRE_UNSUPPORTED_DTYPE="store"):
        format = _C.get_device_dtype(dtype)
    assert format.name == (record.device_format or record.raw_format)
    if record.raw_format is not None:
        assert record.device_format is None and dtype in dtypes.RAW_DTYPES
        assert format.elems_per_stick() * dtype.itemsize == 128


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_both_sides_have_as_many_elements_of_a_format_in_a_stick(format):
    assert _C.DataFormats.__members__[format.name].elems_per_stick() == format.elements_per_stick


def test_error_for_a_dtype_lists_the_supported_dtypes():
    with pytest.raises(RuntimeError, match="does not support dtype") as error:
        torch.empty(1, dtype=torch.float64, device="spyre")
    names = re.search(r"Supported: ([^;]*);", str(error.value))[1].split(", ")
    assert set(names) == {record.name for record in DTYPES if record.device_format}


@pytest.mark.parametrize("record", DTYPES, ids=lambda record: record.name)
def test_every_record_is_complete(record):
    dtype = getattr(torch, record.name)
    is_on_card = record.support in (Support.COMPUTE, Support.STORAGE)
    assert (record.device_format is not None) == is_on_card
    assert (record.element_type is not None) == (record.support is not Support.NONE)
    assert dtype.is_floating_point == (
        record.kind in (DtypeKind.HALF, DtypeKind.FLOAT, DtypeKind.FLOAT8)
    )
    if record.element_type is not None:
        assert ElementType[record.element_type].bytes == dtype.itemsize
    if record.device_format is not None:
        format = FORMATS[record.device_format]
        assert str(element_type(_C.DataFormats.__members__[format.name])) == format.ktir_type
    if dtype in dtypes.FLOAT_DTYPES:
        assert record.unit_in_last_place is not None


def test_the_op_database_covers_every_kind_that_kernels_compute_with():
    records = [record for record in DTYPES if record.name in OPINFO_DTYPES]
    computed = {record.kind for record in DTYPES if record.support is Support.COMPUTE}
    assert len(records) == len(OPINFO_DTYPES)
    assert {record.kind for record in records} == computed


def test_numbers_page_contains_the_table():
    page = (DOCS / "numbers.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\w+)[^|]*\| (\d+) \|", page, re.MULTILINE)
    expected = {
        (record.name, record.device_format, str(FORMATS[record.device_format].elements_per_stick))
        for record in DTYPES
        if record.device_format is not None
    }
    assert set(rows) == expected

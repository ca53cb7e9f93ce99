"""The table of dtypes (`dtype_table.py`) by torch dtype, and tuples of dtypes by property."""

import torch

from torch_spyre.dtype_table import DTYPES, FORMATS, DtypeKind, DtypeRecord, FormatRecord, Support

RECORDS: dict[torch.dtype, DtypeRecord] = {getattr(torch, record.name): record for record in DTYPES}


def _with_support(support: Support, *kinds: DtypeKind) -> tuple[torch.dtype, ...]:
    """Return the dtypes with this support, of these kinds or of any if none is named."""
    return tuple(
        dtype
        for dtype, record in RECORDS.items()
        if record.support is support and (not kinds or record.kind in kinds)
    )


def device_format(dtype: torch.dtype) -> FormatRecord | None:
    """Return the format of tensors of the dtype on the card; None if there are none."""
    record = RECORDS.get(dtype)
    if record is None or record.device_format is None:
        return None
    return FORMATS[record.device_format]


def _is_32_bit_integer(dtype: torch.dtype) -> bool:
    record, format = RECORDS[dtype], device_format(dtype)
    return record.kind is DtypeKind.INTEGER and format is not None and format.bits == 32


# Tensors of these exist only with TORCH_SPYRE_UNSUPPORTED_DTYPE=store; their ops run on the CPU.
RAW_DTYPES = frozenset(dtype for dtype, record in RECORDS.items() if record.raw_format is not None)
# Kernels compute with these.
COMPUTE_DTYPES = _with_support(Support.COMPUTE)
# Kernels only move and convert these.
STORAGE_DTYPES = _with_support(Support.STORAGE)
HALF_DTYPES = _with_support(Support.COMPUTE, DtypeKind.HALF)
FLOAT_DTYPES = _with_support(Support.COMPUTE, DtypeKind.HALF, DtypeKind.FLOAT)
INTEGER_DTYPES = _with_support(Support.COMPUTE, DtypeKind.INTEGER)
SIGNED_DTYPES = tuple(dtype for dtype in INTEGER_DTYPES if dtype.is_signed)
# The card stores these in 32 bits, whatever their width on the host.
INT32_STORED_DTYPES = tuple(filter(_is_32_bit_integer, RECORDS))
# Index tensors of these are masks; uint8 is PyTorch's former mask dtype.
MASK_DTYPES = (torch.bool, torch.uint8)

"""Decides the formats of an op's constants in a SuperDSC file."""

import math

import torch  # noqa: F401  # loads the libraries that _C needs

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import WHERE, find_record
from torch_spyre._inductor.superdsc.constant_bits import decode, encode
from torch_spyre.dtype_table import FORMATS

MASK_CONSTANT = "samv-maskvalue"
# Constants of these names have the type of the elements that the op computes with.
_OPERANDS = ("operand", "clipMin", "clipMax")

_FP16 = DataFormats.SEN169_FP16
_FP32 = DataFormats.IEEE_FP32
_INT32 = DataFormats.IEEE_INT32


def mask_format(op_format: DataFormats) -> DataFormats:
    """Return the format of the mask value: fp32 if elements have four bytes, else fp16."""
    return _FP32 if op_format.elems_per_stick() == _FP32.elems_per_stick() else _FP16


def constant_format(spec: OpSpec, name: str, value: float) -> DataFormats:
    """Return the format in which the op uses a constant.

    Operands have the type of the tensors. Other constants are fp32 in the unit, and fp16 in the
    file of an fp16 op if that is exact.
    """
    inputs = spec.operands
    has_result_type = spec.op == WHERE or not inputs
    operand = spec.output.device_dtype if has_result_type else inputs[0].device_dtype
    if operand == _FP32:
        return _FP32
    if name.startswith(_OPERANDS):
        if not FORMATS[operand.name].ktir_type.startswith("i"):
            return _FP16
        # A clip to one side has an infinity as the other bound.
        return _INT32 if math.isfinite(value) and abs(value) < 1 << 31 else _FP32
    is_exact = repr(decode(encode(value, _FP16), _FP16)) == repr(float(value))
    return _FP16 if is_exact else _FP32


def mask_value(op: str) -> float:
    """Return the padding value that leaves the result of a reduction unchanged."""
    record = find_record(op)
    # Only reductions of the public inventory are masked; for others, KTIR slices off the padding.
    if record is None or record.reduction is None or not record.is_public:
        return 0.0
    return record.reduction.initial

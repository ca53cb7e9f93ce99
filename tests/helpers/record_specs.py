"""OpSpecs of one op on small tensors, for any record with KTIR."""

import torch  # noqa: F401  (first: the extension needs its libraries)
from sympy import Integer, Mod, floor

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec, TensorArg, sympify
from torch_spyre._inductor.op_table import Kind, OperandClass

FP16, FP32, INT32 = DataFormats.SEN169_FP16, DataFormats.IEEE_FP32, DataFormats.IEEE_INT32
# Bools are stored in the 16-bit float format.
FORMATS = {
    OperandClass.FLOAT: (FP16, FP32),
    OperandClass.INTEGER: (INT32,),
    OperandClass.BOOL: (FP16,),
}
CONSTANTS = {
    "clipMin": -0.5,
    "clipMax": 6.0,
    "softplusBeta": 1.5,
    "softplusThresh": 20.0,
    "scaling_factor": 0.01,
}
STICK_BYTES = 128
ROWS, COLUMNS = 24, 100
_ROW, _COLUMN = sympify("c0"), sympify("c1")


def matrix(position, format, *, is_input=True, is_reduced=False):
    """Return a tensor of `ROWS` and `COLUMNS`, or with one element in place of the columns."""
    stick = format.elems_per_stick()
    coordinates = [floor(_COLUMN / stick), _ROW, Mod(_COLUMN, stick)]
    sticks = -(-COLUMNS // stick)
    if is_reduced:
        coordinates, sticks = [Integer(0), _ROW, Integer(0)], 1
    return TensorArg(
        is_input=is_input,
        arg_index=position,
        device_dtype=format,
        device_size=[sticks, ROWS, stick],
        device_coordinates=coordinates,
        allocation={"hbm": (position + 1) << 34},
    )


def formats_of(record, operand_class):
    """Return the formats of operands that a form of the op accepts."""
    max_bits = record.ktir[operand_class].max_bits
    return [
        format
        for format in FORMATS[operand_class]
        if 8 * STICK_BYTES // format.elems_per_stick() <= max_bits
    ]


def spec_of(record, format, *, result_format=None):
    """Return the op on whole tensors of a format."""
    is_reduction = record.kind in (Kind.REDUCTION, Kind.ARG_REDUCTION)
    count = record.arity
    output = result_format or (INT32 if record.kind is Kind.ARG_REDUCTION else format)
    inputs = [matrix(position, format) for position in range(count)]
    result = matrix(count, output, is_input=False, is_reduced=is_reduction)
    info = {}
    if record.constants:
        info["constants"] = {name: CONSTANTS[name] for name in record.constants}
    if record.kind is Kind.COORDINATE:
        info["expression"] = "3*c0 + c1"
    space = {_ROW: (Integer(ROWS), 8), _COLUMN: (Integer(COLUMNS), 1)}
    return OpSpec(record.name, is_reduction, space, [*inputs, result], op_info=info)

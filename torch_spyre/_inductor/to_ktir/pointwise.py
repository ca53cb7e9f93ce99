"""Emits elementwise ops from the KTIR forms in their records."""

from collections.abc import Callable
from functools import partial

from xdsl.ir import Attribute, Operation, SSAValue

from torch_spyre._inductor.op_table import (
    Emission,
    Kind,
    KtirForm,
    OperandClass,
    OpRecord,
    record_of,
)
from torch_spyre._inductor.to_ktir.compound_forms import COMPOUND_FORMS, Constants, Operands
from torch_spyre._inductor.to_ktir.conversions import converted
from torch_spyre._inductor.to_ktir.emitter import Emitter, element_of
from torch_spyre._inductor.to_ktir.types import F16, I1, bytes_of, is_float
from torch_spyre.errors import UnsupportedError
from torch_spyre.ktir.dialects.context import ktir_context


def emit_pointwise(
    emitter: Emitter, op: str, operands: Operands, constants: Constants, result: Attribute
) -> SSAValue:
    """Emit an op on tensors of equal shape and return its value.

    The element type may be bool although `result` is another type; the caller converts it.
    """
    record = record_of(op)
    if record.kind in (Kind.CONVERSION, Kind.DATA_MOVEMENT):
        return converted(emitter, operands[0], result)
    typed = _typed_operands(emitter, record, operands, result)
    element = element_of(typed[-1])
    form = record.form(operand_class(element))
    if form is None or 8 * bytes_of(element) > form.max_bits:
        raise UnsupportedError(f"{op} on {element}")
    return _emit_form(emitter, form, typed, constants)


def operand_class(element: Attribute) -> OperandClass:
    """Return the class of an element type, which selects the form of an op."""
    if element == I1:
        return OperandClass.BOOL
    return OperandClass.FLOAT if is_float(element) else OperandClass.INTEGER


def operation_class(form: KtirForm) -> Callable[..., Operation]:
    """Return the constructor of the operation that a form names."""
    operation: Callable[..., Operation] = ktir_context().get_op(form.name)
    return operation if form.predicate is None else partial(operation, form.predicate)


def _emit_form(
    emitter: Emitter, form: KtirForm, operands: Operands, constants: Constants
) -> SSAValue:
    match form.emission:
        case Emission.OPERATION:
            return emitter.add(operation_class(form)(*operands))
        case Emission.INTRINSIC:
            return emitter.generic(operation_class(form), operands)
        case Emission.COMPOUND:
            return COMPOUND_FORMS[form.name](emitter, operands, constants)
    raise AssertionError(f"{form.name} has a dedicated emitter")


def _typed_operands(
    emitter: Emitter, record: OpRecord, operands: Operands, result: Attribute
) -> list[SSAValue]:
    """Return the operands, converted to the types that the op computes in."""
    if record.kind is Kind.SELECTION:
        condition, *choices = operands
        return [
            converted(emitter, condition, I1),
            *(converted(emitter, choice, result) for choice in choices),
        ]
    element = I1 if record.kind is Kind.LOGICAL else _common_type(operands)
    return [converted(emitter, operand, element) for operand in operands]


def _common_type(operands: Operands) -> Attribute:
    """Return the type that an op computes in. Ops on bools only compute in floats."""
    elements = [element_of(operand) for operand in operands]
    return next((element for element in elements if element != I1), F16)

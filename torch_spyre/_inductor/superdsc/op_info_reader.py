"""Reads and checks `opInfo`, the properties of an op that are not properties of its tensors."""

from typing import Any

import sympy

from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.multi_loop.roles import ROLES_INFO, LoopRoles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import INDEX, find_record
from torch_spyre._inductor.superdsc.coordinates import direct_symbols, parse
from torch_spyre._inductor.superdsc.json_fields import Field

_BOOL_ENTRIES = ("accumulate", "partial")


def read_op_info(info: Field) -> dict[str, Any]:
    """Return the entries of `opInfo`; those that any op may have are checked here."""
    for name in _BOOL_ENTRIES:
        entry = info.get(name)
        if entry is not None:
            entry.boolean()
    unsplittable = info.get("unsplittable")
    if unsplittable is not None:
        unsplittable.strings()
    if info.get("constants") is not None:
        info["constants"].fail("constants belong in constantInfo_")
    return {name: entry.value for name, entry in info.entries()}


def check_op_info(spec: OpSpec, info: Field, dsc: Field) -> None:
    """Check the entries that this op requires against its tensors."""
    multi_loop = find_multi_loop_op(spec.op)
    description = find_record(spec.op) if multi_loop is None else multi_loop
    for name in description.constants if description else ():
        if name not in spec.constants:
            dsc["constantInfo_"].fail(f"{spec.op} requires the constant {name!r}")
    if spec.op == INDEX and (not spec.inputs or info.get("expression") is not None):
        _check_expression(spec, info["expression"])
    if multi_loop is not None:
        sizes = {symbol.name: size for symbol, size in spec.sizes.items()}
        roles_field = info[ROLES_INFO]
        roles = LoopRoles.from_field(multi_loop.roles, roles_field, sizes)
        multi_loop.check_op_info(spec, roles, roles_field, dsc)


def _check_expression(spec: OpSpec, field: Field) -> None:
    """Check that the expression is a coordinate: sympy evaluates it as Python later."""
    try:
        expression = parse(field.string())
    except ValueError as error:
        field.fail(str(error))
    symbols = direct_symbols(expression)
    unknown = [symbol for symbol in symbols if symbol not in spec.iteration_space]
    if unknown or expression.atoms(sympy.Function) - expression.atoms(sympy.floor, sympy.Mod):
        field.fail(f"may only use the symbols {', '.join(map(str, spec.iteration_space))}")

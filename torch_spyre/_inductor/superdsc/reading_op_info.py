"""What an op needs to know beside its tensors, under `opInfo`: checked before it is believed."""

from typing import Any

import sympy

from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.multi_loop.roles import ROLES_INFO, LoopRoles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_table import INDEX, find_record
from torch_spyre._inductor.superdsc.coordinates import direct_symbols, parse
from torch_spyre._inductor.superdsc.fields import Field

_FLAGS = ("accumulate", "partial")


def read_op_info(told: Field) -> dict[str, Any]:
    """The entries as they are; texts and flags that other ops have too are checked here."""
    for name in _FLAGS:
        flag = told.get(name)
        if flag is not None:
            flag.truth()
    unsplittable = told.get("unsplittable")
    if unsplittable is not None:
        unsplittable.texts()
    if told.get("constants") is not None:
        told["constants"].fail("constants are in constantInfo_")
    return {name: entry.value for name, entry in told.entries()}


def check_op_info(spec: OpSpec, told: Field, dsc: Field) -> None:
    """What some ops must have, against the tensors of this one."""
    multi_loop = find_multi_loop_op(spec.op)
    described = find_record(spec.op) if multi_loop is None else multi_loop
    for name in described.constants if described else ():
        if name not in spec.constants:
            dsc["constantInfo_"].fail(f"{spec.op} needs the constant {name!r}")
    if spec.op == INDEX and (not spec.inputs or told.get("expression") is not None):
        _check_expression(spec, told["expression"])
    if multi_loop is not None:
        sizes = {symbol.name: size for symbol, size in spec.sizes.items()}
        info = told[ROLES_INFO]
        roles = LoopRoles.from_field(multi_loop.roles, info, sizes)
        multi_loop.check_op_info(spec, roles, info, dsc)


def _check_expression(spec: OpSpec, field: Field) -> None:
    """It is read with sympy later, which would execute what is no expression."""
    try:
        found = parse(field.text())
    except ValueError as error:
        field.fail(str(error))
    unknown = [str(each) for each in direct_symbols(found) if each not in spec.iteration_space]
    if unknown or found.atoms(sympy.Function) - found.atoms(sympy.floor, sympy.Mod):
        field.fail(f"must be made of {', '.join(map(str, spec.iteration_space))}")

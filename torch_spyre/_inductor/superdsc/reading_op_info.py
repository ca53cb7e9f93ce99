"""What an op needs to know beside its tensors, under `opInfo`: checked before it is believed."""

from collections.abc import Iterable, Mapping
from typing import Any

import sympy

from torch_spyre._inductor.attention_roles import ATTENTION, ATTENTION_OPS, ROLES, ROLES_INFO
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
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
    record = find_record(spec.op)
    for name in record.constants if record else ():
        if name not in spec.constants:
            dsc["constantInfo_"].fail(f"{spec.op} needs the constant {name!r}")
    if spec.op == INDEX and (not spec.inputs or told.get("expression") is not None):
        _check_expression(spec, told["expression"])
    if spec.op in ATTENTION_OPS:
        _check_roles(spec, told[ROLES_INFO], dsc)


def _check_expression(spec: OpSpec, field: Field) -> None:
    """It is read with sympy later, which would execute what is no expression."""
    try:
        found = parse(field.text())
    except ValueError as error:
        field.fail(str(error))
    unknown = [str(each) for each in direct_symbols(found) if each not in spec.iteration_space]
    if unknown or found.atoms(sympy.Function) - found.atoms(sympy.floor, sympy.Mod):
        field.fail(f"must be made of {', '.join(map(str, spec.iteration_space))}")


def _check_roles(spec: OpSpec, field: Field, dsc: Field) -> None:
    least = 3 if spec.op == ATTENTION else 2
    if len(spec.inputs) < least:
        dsc["labeledDs_"].fail(f"{spec.op} has at least {least} inputs, not {len(spec.inputs)}")
    sizes = {symbol.name: size for symbol, size in spec.sizes.items()}
    roles: dict[str, set[str]] = {}
    for role in ROLES:
        entry = field[role]
        roles[role] = _check_steps(entry, sizes)
        for other in roles:
            if other != role and roles[other] & roles[role]:
                entry.fail(f"has symbols of {other}")
    query, key = (_names([arg]) for arg in spec.inputs[:2])
    kept = _names([spec.output])
    folded = (roles["key"] | roles["inner"]) & set(sizes)
    if not roles["key"] or folded != set(sizes) - kept:
        field.fail("keys and inner must be the symbols that the result lacks")
    if roles["key"] & query or not roles["key"] <= key:
        field["key"].fail("must be symbols of the keys, and not of the queries")
    if roles["inner"] & set(sizes) - (query & key):
        field["inner"].fail("must be symbols of queries and keys")
    along_sticks = {each.name for each in direct_symbols(spec.output.device_coordinates[-1])}
    if roles["value"] & (query | key) or along_sticks - query - key - roles["value"]:
        field["value"].fail("must be the symbols of the result that queries and keys lack")
    if roles["row"] - query or roles["row"] & key:
        field["row"].fail("must be symbols of the queries, and not of the keys")


def _check_steps(entry: Field, sizes: Mapping[str, int]) -> set[str]:
    """Together, outermost first, the symbols count without a gap."""
    step = 1
    for name, part in reversed(list(entry.entries())):
        if part.integer(1) != step:
            part.fail(f"is not the step, {step}, that the symbols after it leave")
        step *= sizes.get(name, 1)
    return {name for name, _ in entry.entries()}


def _names(args: Iterable[TensorArg]) -> set[str]:
    return {
        symbol.name
        for arg in args
        for coordinate in arg.device_coordinates
        for symbol in direct_symbols(sympy.sympify(coordinate))
    }

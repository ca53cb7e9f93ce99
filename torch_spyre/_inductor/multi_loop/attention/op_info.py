"""Checks the roles of attention's loops against its tensors, for specs read from files."""

import sympy

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table.attention import ATTENTION
from torch_spyre._inductor.superdsc.coordinates import direct_symbols
from torch_spyre._inductor.superdsc.json_fields import Field


def check_roles(spec: OpSpec, roles: LoopRoles, info: Field, dsc: Field) -> None:
    """Raise an error unless every symbol has the tensors that its role requires."""
    min_inputs = 3 if spec.op == ATTENTION else 2
    if len(spec.inputs) < min_inputs:
        dsc["labeledDs_"].fail(
            f"{spec.op} has at least {min_inputs} inputs, not {len(spec.inputs)}"
        )
    symbols = {symbol.name for symbol in spec.sizes}
    query, key = (_symbol_names(arg) for arg in spec.inputs[:2])
    row, keys, inner, value = (roles.names(role) for role in ("row", "key", "inner", "value"))
    if not keys or (keys | inner) & symbols != symbols - _symbol_names(spec.output):
        info.fail("keys and inner must be the symbols that the result lacks")
    if keys & query or not keys <= key:
        info["key"].fail("must be symbols of the keys, and not of the queries")
    if inner & symbols - (query & key):
        info["inner"].fail("must be symbols of queries and keys")
    lane = {symbol.name for symbol in direct_symbols(spec.output.device_coordinates[-1])}
    if value & (query | key) or lane - query - key - value:
        info["value"].fail("must be the symbols of the result that queries and keys lack")
    if row - query or row & key:
        info["row"].fail("must be symbols of the queries, and not of the keys")


def _symbol_names(arg: TensorArg) -> set[str]:
    return {
        symbol.name
        for coordinate in arg.device_coordinates
        for symbol in direct_symbols(sympy.sympify(coordinate))
    }

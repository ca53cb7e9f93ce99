"""Checks the loop roles of an attention spec that was read from a file."""

import sympy

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table.attention import ATTENTION
from torch_spyre._inductor.superdsc.coordinates import direct_symbols
from torch_spyre._inductor.superdsc.json_fields import Field


def check_roles(spec: OpSpec, roles: LoopRoles, info: Field, dsc: Field) -> None:
    """Raise `BundleError` unless each symbol occurs in the tensors that its role implies."""
    min_inputs = 3 if spec.op == ATTENTION else 2
    if len(spec.inputs) < min_inputs:
        dsc["labeledDs_"].fail(
            f"{spec.op} needs at least {min_inputs} inputs, but {len(spec.inputs)} are listed"
        )
    symbols = {symbol.name for symbol in spec.sizes}
    query, key = (_symbol_names(arg) for arg in spec.inputs[:2])
    row, keys, inner, value = (roles.names(role) for role in ("row", "key", "inner", "value"))
    if not keys or (keys | inner) & symbols != symbols - _symbol_names(spec.output):
        info.fail("the roles key and inner must hold exactly the symbols missing in the output")
    if keys & query or not keys <= key:
        info["key"].fail(
            "must hold symbols that occur in the key tensor, but not in the query tensor"
        )
    if inner & symbols - (query & key):
        info["inner"].fail("must hold symbols that occur in both the query and the key tensor")
    lane = {symbol.name for symbol in direct_symbols(spec.output.device_coordinates[-1])}
    if value & (query | key) or lane - query - key - value:
        info["value"].fail(
            "must hold the output symbols that occur in neither the query nor the key tensor"
        )
    if row - query or row & key:
        info["row"].fail(
            "must hold symbols that occur in the query tensor, but not in the key tensor"
        )


def _symbol_names(arg: TensorArg) -> set[str]:
    return {
        symbol.name
        for coordinate in arg.device_coordinates
        for symbol in direct_symbols(sympy.sympify(coordinate))
    }

"""Checks the invariants of `OpSpec`s, which the compiler builds or files contain."""

from collections.abc import Sequence

import sympy

from torch_spyre._inductor.op_spec import IndirectAccess, OpSpec, Spec, TensorArg, flat
from torch_spyre.errors import InvalidOpSpecError


def validate(specs: Sequence[Spec], cores: int) -> None:
    """Raise `InvalidOpSpecError` if a spec is inconsistent or uses more than `cores` cores."""
    for spec in flat(specs):
        if isinstance(spec, OpSpec):
            _validate_op(spec, cores)


def _validate_op(spec: OpSpec, cores: int) -> None:
    _require(spec, bool(spec.args), "it has no tensors")
    _require(spec, not spec.output.is_input, "its last tensor must be the output")
    _require(
        spec, all(arg.is_input for arg in spec.args[:-1]), "it has an output before its last tensor"
    )
    for symbol, (size, split) in spec.iteration_space.items():
        is_constant = isinstance(size, int) or getattr(size, "is_Integer", False)
        _require(
            spec, is_constant and int(size) > 0, f"{symbol} has size {size}, not a positive int"
        )
        _require(
            spec, 1 <= split <= cores, f"{symbol} is divided over {split} cores, not 1 to {cores}"
        )
    _require(spec, spec.cores <= cores, f"it is divided over {spec.cores} cores of {cores}")
    for position, arg in enumerate(spec.args):
        _validate_tensor(spec, position, arg)


def _validate_tensor(spec: OpSpec, position: int, arg: TensorArg) -> None:
    label = f"tensor {position}"
    _require(
        spec,
        len(arg.device_size) == len(arg.device_coordinates),
        f"{label} has {len(arg.device_size)} device dims and "
        f"{len(arg.device_coordinates)} coordinates",
    )
    _require(spec, all(size > 0 for size in arg.device_size), f"{label} has an empty device dim")
    _require(
        spec,
        len(arg.allocation) == 1 and set(arg.allocation) <= {"hbm", "pool", "lx"},
        f"{label} must be allocated in exactly one of hbm, pool and lx, not {dict(arg.allocation)}",
    )
    _require(
        spec,
        (arg.arg_index >= 0) == ("hbm" in arg.allocation),
        f"{label} is in {next(iter(arg.allocation))} and has argument index {arg.arg_index}; the "
        "index must be -1 except in hbm",
    )
    for coordinate in arg.device_coordinates:
        unknown = {
            symbol
            for symbol in _direct_symbols(sympy.sympify(coordinate))
            if symbol not in spec.iteration_space
        }
        names = ", ".join(sorted(map(str, unknown)))
        _require(spec, not unknown, f"{label} depends on {names}, not in the iteration space")


def _direct_symbols(expression: sympy.Expr) -> set[sympy.Symbol]:
    if isinstance(expression, IndirectAccess):
        return set()
    if expression.is_Symbol:
        return {expression}
    return {symbol for operand in expression.args for symbol in _direct_symbols(operand)}


def _require(spec: OpSpec, holds: bool, problem: str) -> None:
    if not holds:
        raise InvalidOpSpecError(f"OpSpec {spec.op}", problem)

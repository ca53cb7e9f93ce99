"""Divides the evaluation of a stage, so that its values need a bounded amount of host memory."""

from collections.abc import Mapping, Sequence
from math import prod

from sympy import Symbol

from torch_spyre._inductor.kernel_parameters import parameter_name
from torch_spyre._inductor.multi_loop.registry import multi_loop_op_of
from torch_spyre._inductor.op_spec import OpSpec, TensorArg, index_names
from torch_spyre._inductor.verification.memory import Memory
from torch_spyre._inductor.verification.scratchpad import have_same_coordinates

# The points of an iteration space that are evaluated at once.
_MAX_POINTS = 1 << 22


def parts_of(
    specs: Sequence[OpSpec], memories: Mapping[str, Memory], max_points: int = _MAX_POINTS
) -> list[Mapping[Symbol, range]]:
    """Return the values of a symbol in each part of a stage; an empty mapping is the whole stage.

    All ops are evaluated on one part after the other. That is only possible along a symbol that all
    have and none reduces, and if no op reads elements that another writes at other points.
    """
    points = max(prod(spec.sizes.values()) for spec in specs)
    symbol = _symbol_to_split(specs)
    if points <= max_points or symbol is None or not _is_divisible(specs, memories):
        return [{}]
    size = specs[0].sizes[symbol]
    step = max(1, size * max_points // points)
    return [{symbol: range(start, min(start + step, size))} for start in range(0, size, step)]


def _symbol_to_split(specs: Sequence[OpSpec]) -> Symbol | None:
    """Return the longest symbol that all ops have and none reduces."""
    symbols = set(specs[0].sizes)
    for spec in specs:
        symbols &= set(spec.sizes) & _symbols_of(spec.output)
    return max(symbols, key=lambda symbol: (specs[0].sizes[symbol], symbol.name), default=None)


def _symbols_of(arg: TensorArg) -> set[Symbol]:
    return {symbol for index in arg.device_coordinates for symbol in index.free_symbols}


def _is_divisible(specs: Sequence[OpSpec], memories: Mapping[str, Memory]) -> bool:
    if multi_loop_op_of(specs) is not None or any(index_names(spec.output) for spec in specs):
        return False
    scratchpad: dict[str | None, TensorArg] = {}
    for spec in specs:
        for arg in (arg for arg in spec.inputs if arg.in_scratchpad):
            writer = scratchpad.get(arg.name)
            if writer is None or not have_same_coordinates(writer, arg):
                return False
        if spec.output.in_scratchpad:
            scratchpad[spec.output.name] = spec.output
    args = [arg for spec in specs for arg in spec.args if not arg.in_scratchpad]
    for output in (arg for arg in args if not arg.is_input):
        memory = memories[parameter_name(output)]
        for arg in args:
            is_same = memories[parameter_name(arg)] is memory
            if is_same and not have_same_coordinates(arg, output):
                return False
    return True

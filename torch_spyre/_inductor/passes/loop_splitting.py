"""Splits loops for which no division over cores keeps every tensor within the span limit.

A vocabulary of 49,159 words is 769 sticks, a prime: no number of cores divides them. Split into 768
sticks and one, the loop becomes two programs, the first of which all cores can divide.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts import device_coordinates
from torch_spyre._inductor.loop_ir import Coordinate, Load, LoopOp, Node, traverse
from torch_spyre._inductor.loop_rewriting import with_leaves
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import SpanLimitError

# Raises SpanLimitError if no division over cores keeps a group of loops within the span limit.
SpanCheck = Callable[[Bundle, Sequence[LoopOp]], object]


def split_long_loops(bundle: Bundle, check_spans: SpanCheck) -> Bundle:
    """Split every group that exceeds the span limit into groups that do not."""
    groups = [chunk for group in bundle.groups for chunk in _chunks(bundle, group, check_spans)]
    return replace(bundle, groups=tuple(groups))


def _chunks(
    bundle: Bundle, group: Sequence[LoopOp], check_spans: SpanCheck
) -> list[Sequence[LoopOp]]:
    cores = bundle.card.compute.cores
    candidates = list(_outermost_symbols(bundle, group))
    if not candidates:
        return [group]
    try:
        check_spans(bundle, group)
        return [group]
    except SpanLimitError:
        choice = _symbol_to_split(group, candidates, cores)
        if choice is None:
            raise
    symbol, unit, size = choice
    units = -(-size // unit)
    divisible = units - units % cores
    middle = unit * (divisible if 0 < divisible < units else units // 2)
    first = [_chunk(op, symbol, 0, middle) for op in group]
    second = [_chunk(op, symbol, middle, size - middle) for op in group]
    return [*_chunks(bundle, first, check_spans), *_chunks(bundle, second, check_spans)]


def _symbol_to_split(
    group: Sequence[LoopOp], candidates: Sequence[tuple[Symbol, int]], cores: int
) -> tuple[Symbol, int, int] | None:
    """Return the symbol with most units per core when divided best, with its unit and size."""
    sizes = {symbol: size for op in group for symbol, size in op.sizes.items()}
    reduced = {symbol for op in group for symbol in op.reduced}
    units: dict[Symbol, int] = {}
    for symbol, unit in candidates:
        # A symbol that runs along the sticks of one tensor is split between sticks of all.
        units[symbol] = max(unit, units.get(symbol, 1))
    choices = [
        (symbol, unit, sizes[symbol])
        for symbol, unit in units.items()
        if symbol not in reduced and sizes[symbol] > unit
    ]

    def units_per_core(choice: tuple[Symbol, int, int]) -> int:
        _, unit, size = choice
        return _units_per_core(-(-size // unit), cores)

    return max(choices, key=units_per_core, default=None)


def _units_per_core(units: int, cores: int) -> int:
    """Return the units per core if as many cores as possible get equal slices."""
    return units // max(split for split in range(1, cores + 1) if units % split == 0)


def _outermost_symbols(bundle: Bundle, group: Sequence[LoopOp]) -> Iterator[tuple[Symbol, int]]:
    """Yield the symbols along the outermost dims of tensors over the limit, with their units."""
    limit = bundle.card.memory.span_limit_bytes
    for op in group:
        accesses = [(op.target, op.write), *((load.buffer, load.index) for load in op.loads)]
        for name, index in accesses:
            tensor = bundle.tensors[name]
            if _device_bytes(tensor) <= limit:
                continue
            for coordinate in _coordinates(tensor, op, index)[:-1]:
                symbols = [symbol for symbol in coordinate.free_symbols if symbol in op.sizes]
                if len(symbols) == 1:
                    assert tensor.layout is not None
                    along_sticks = coordinate.has(sympy.floor)
                    yield symbols[0], tensor.layout.device_size[-1] if along_sticks else 1
                    break


def _device_bytes(tensor: Tensor) -> int:
    assert tensor.layout is not None
    *outer, _ = tensor.layout.device_size
    return BYTES_IN_STICK * int(sympy.prod(outer))


def _coordinates(tensor: Tensor, op: LoopOp, index: sympy.Expr) -> list[sympy.Expr]:
    layout = tensor.layout
    assert layout is not None
    offset = index + tensor.offset
    return device_coordinates(layout.device_size, layout.stride_map, op.sizes, offset)


def _chunk(op: LoopOp, symbol: Symbol, start: int, size: int) -> LoopOp:
    """Return the op for `size` values of a symbol, from `start` on."""
    if symbol not in op.sizes:
        return op
    shift = {symbol: symbol + start}

    def shifted(load: Load) -> Load:
        indirect = tuple((value, shifted(index)) for value, index in load.indirect)
        return replace(load, index=load.index.xreplace(shift), indirect=indirect)

    leaves: dict[Node, Node] = {
        node: shifted(node)
        if isinstance(node, Load)
        else replace(node, expression=node.expression.xreplace(shift))
        for node in traverse(op.roots)
        if isinstance(node, Load | Coordinate)
    }
    return replace(
        with_leaves(op, leaves),
        sizes={**op.sizes, symbol: size},
        write=op.write.xreplace(shift),
        scattered=tuple((value, shifted(index)) for value, index in op.scattered),
    )

"""Cuts loops in parts where a core would reach too far in a tensor, however they are divided.

A vocabulary of 49,159 words is 769 sticks, a prime: no number of cores divides them. As 768 and one
they are two programs, the first of which all cores share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts import device_coordinates
from torch_spyre._inductor.loop_ir import Coordinate, Load, LoopOp, Node, Reduction, walk
from torch_spyre._inductor.passes.layouts import with_nodes
from torch_spyre._inductor.passes.op_specs import specs_of
from torch_spyre._inductor.passes.work_division import divided
from torch_spyre.errors import SpanLimitError

_STICK_BYTES = 128


def cut_long_loops(bundle: Bundle) -> Bundle:
    groups = [part for group in bundle.groups for part in _parts(bundle, group)]
    return replace(bundle, groups=tuple(groups))


def _parts(bundle: Bundle, group: Sequence[LoopOp]) -> list[Sequence[LoopOp]]:
    cores = bundle.card.compute.cores
    candidates = list(_outermost(bundle, group))
    if not candidates:
        return [group]
    try:
        divided(specs_of(bundle, group), bundle.card)
        return [group]
    except SpanLimitError:
        found = _symbol_to_cut(group, candidates, cores)
        if found is None:
            raise
    symbol, unit, size = found
    units = -(-size // unit)
    shared = units - units % cores
    middle = unit * (shared if 0 < shared < units else units // 2)
    first = [_part(op, symbol, 0, middle) for op in group]
    second = [_part(op, symbol, middle, size - middle) for op in group]
    return [*_parts(bundle, first), *_parts(bundle, second)]


def _symbol_to_cut(
    group: Sequence[LoopOp], candidates: Sequence[tuple[Symbol, int]], cores: int
) -> tuple[Symbol, int, int] | None:
    """With its unit and size: the one of which a core has most units, however it is divided."""
    sizes = {symbol: size for op in group for symbol, size in op.sizes.items()}
    reduced = {symbol for op in group for symbol in op.reduced}
    whole: dict[Symbol, int] = {}
    for symbol, unit in candidates:
        # What lies along the sticks of one tensor is cut there, wherever it lies in others.
        whole[symbol] = max(unit, whole.get(symbol, 1))
    found = [
        (symbol, unit, sizes[symbol])
        for symbol, unit in whole.items()
        if symbol not in reduced and sizes[symbol] > unit
    ]
    return max(found, key=lambda each: _share(-(-each[2] // each[1]), cores), default=None)


def _share(units: int, cores: int) -> int:
    """Of one core, where as many as possible have the same."""
    return units // max(split for split in range(1, cores + 1) if units % split == 0)


def _outermost(bundle: Bundle, group: Sequence[LoopOp]) -> Iterator[tuple[Symbol, int]]:
    """Symbols along the outermost dim of tensors beyond the limit, and what they are cut by."""
    limit = bundle.card.memory.span_limit_bytes
    for op in group:
        accesses = [(op.target, op.write), *((load.buffer, load.index) for load in op.loads)]
        for name, index in accesses:
            tensor = bundle.tensors[name]
            if _bytes(tensor) <= limit:
                continue
            for coordinate in _coordinates(tensor, op, index)[:-1]:
                symbols = [each for each in coordinate.free_symbols if each in op.sizes]
                if len(symbols) == 1:
                    assert tensor.layout is not None
                    along_sticks = coordinate.has(sympy.floor)
                    yield symbols[0], tensor.layout.device_size[-1] if along_sticks else 1
                    break


def _bytes(tensor: Tensor) -> int:
    assert tensor.layout is not None
    *outer, _ = tensor.layout.device_size
    return _STICK_BYTES * int(sympy.prod(outer))


def _coordinates(tensor: Tensor, op: LoopOp, index: sympy.Expr) -> list[sympy.Expr]:
    layout = tensor.layout
    assert layout is not None
    where = index + tensor.offset
    return device_coordinates(layout.device_size, layout.stride_map, op.sizes, where)


def _part(op: LoopOp, symbol: Symbol, start: int, size: int) -> LoopOp:
    """The op for `size` values of a symbol, from `start` on."""
    if symbol not in op.sizes:
        return op
    moved = {symbol: symbol + start}

    def move(load: Load) -> Load:
        indirect = tuple((value, move(index)) for value, index in load.indirect)
        return replace(load, index=load.index.xreplace(moved), indirect=indirect)

    roots = op.value.inputs if isinstance(op.value, Reduction) else (op.value,)
    nodes: dict[Node, Node] = {
        node: move(node)
        if isinstance(node, Load)
        else replace(node, expression=node.expression.xreplace(moved))
        for node in walk(roots)
        if isinstance(node, Load | Coordinate)
    }
    return replace(
        with_nodes(op, nodes),
        sizes={**op.sizes, symbol: size},
        write=op.write.xreplace(moved),
        scattered=tuple((value, move(index)) for value, index in op.scattered),
    )

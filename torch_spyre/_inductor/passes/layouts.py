"""Gives every tensor a layout, and inserts the copies that ops need."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts import WRITE, Access, LayoutOp, Restickify, plan_layouts
from torch_spyre._inductor.layouts.terms import expression, parse
from torch_spyre._inductor.loop_ir import Load, LoopOp, Node, Reduction
from torch_spyre._inductor.loop_rewriting import with_leaves


def propagate_layouts(bundle: Bundle) -> Bundle:
    """Choose layouts for the whole bundle at once, so that copies between them are few."""
    ops = [_layout_op(op, bundle.tensors) for op in bundle.ops]
    known = [tensor.as_buffer() for tensor in bundle.tensors.values() if tensor.layout is not None]
    plan = plan_layouts(known, ops)
    tensors = {
        name: replace(tensor, layout=plan.layouts.get(name, tensor.layout))
        for name, tensor in bundle.tensors.items()
    }
    copies: dict[str, list[Restickify]] = {}
    for copy in plan.copies:
        copies.setdefault(copy.op_name, []).append(copy)
    inserted: set[str] = set()
    result: list[LoopOp] = []
    for op in bundle.ops:
        before, changed, after = _with_copies(op, copies.get(op.name, []), tensors, inserted)
        result.extend((*before, changed, *after))
    return replace(bundle, ops=tuple(result), tensors=tensors)


def _layout_op(op: LoopOp, tensors: Mapping[str, Tensor]) -> LayoutOp:
    reads = []
    for load in op.reads:
        offset = load.index + tensors[load.buffer].offset
        reads.append(
            Access(tensors[load.buffer].as_buffer(), offset, indirect=_loops(load.indirect))
        )
        reads.extend(_index_access(index, tensors) for _, index in load.indirect)
    reads.extend(_index_access(index, tensors) for _, index in op.scattered)
    target = tensors[op.target]
    write = Access(target.as_buffer(), op.write + target.offset, indirect=_loops(op.scattered))
    return LayoutOp(op.name, _kind(op), op.sizes, reads, write)


def _loops(indirect: Sequence[tuple[Symbol, Load]]) -> dict[Symbol, frozenset[Symbol]]:
    """Return the symbols that each value of an index tensor depends on."""
    return {symbol: frozenset(index.index.free_symbols) for symbol, index in indirect}


def _index_access(index: Load, tensors: Mapping[str, Tensor]) -> Access:
    tensor = tensors[index.buffer]
    return Access(tensor.as_buffer(), index.index + tensor.offset, is_index=True)


def _kind(op: LoopOp) -> str:
    if op.target != op.name:
        return "mutation"
    if op.is_matmul:
        return "matmul"
    if isinstance(op.value, Reduction) and op.is_multi_loop:
        return op.value.op
    if isinstance(op.value, Reduction):
        return "reduction"
    if isinstance(op.value, Load) and not op.value.indirect:
        return "clone"
    return "pointwise" if op.loads else "fill"


def _with_copies(
    op: LoopOp, copies: list[Restickify], tensors: dict[str, Tensor], inserted: set[str]
) -> tuple[list[LoopOp], LoopOp, list[LoopOp]]:
    before: list[LoopOp] = []
    after: list[LoopOp] = []
    positions = _read_positions(op)
    replaced: dict[int, Load] = {}
    for copy in copies:
        if copy.read_position == WRITE:
            op, copy_back = _write_to_buffer(op, copy, tensors)
            after.append(copy_back)
            continue
        load = positions[copy.read_position]
        source = tensors[load.buffer]
        if copy.name not in inserted:
            inserted.add(copy.name)
            before.append(_copy(load, copy, source, op))
            tensors[copy.name] = Tensor(
                copy.name, tuple(copy.size), tuple(copy.stride), copy.dtype, copy.target_layout
            )
        if copy.kind == "restickify":
            replaced[copy.read_position] = replace(load, buffer=copy.name)
        else:
            replaced[copy.read_position] = Load(copy.name, copy.index, load.dtype)
    if isinstance(op.value, Reduction) and op.is_matmul:
        factors = {**positions, **replaced}
        op = replace(op, value=replace(op.value, inputs=tuple(factors.values())))
        return before, op, after
    leaves: dict[Node, Node] = {positions[position]: load for position, load in replaced.items()}
    return before, with_leaves(op, leaves), after


def _read_positions(op: LoopOp) -> dict[int, Load]:
    """Return the loads by their position among the reads of the `LayoutOp`, with index tensors."""
    positions: dict[int, Load] = {}
    position = 0
    for load in op.reads:
        positions[position] = load
        position += 1 + len(load.indirect)
    return positions


def _copy(load: Load, copy: Restickify, source: Tensor, op: LoopOp) -> LoopOp:
    if copy.kind == "gather":
        sizes = {symbol: int(size) for symbol, size in copy.ranges.items() if int(size) > 1}
        # Simplified with the op's sizes, since the copy does not have all of its loops.
        value = replace(load, index=expression(parse(load.index, op.sizes)))
        return LoopOp(
            copy.name, copy.name, load.dtype, sizes, (), value, copy.index, origin=op.origin
        )
    symbols = [Symbol(f"c{dim}", integer=True) for dim in range(len(source.size))]
    sizes = {symbol: size for symbol, size in zip(symbols, source.size, strict=True) if size > 1}
    index = sympy.Add(
        *(
            symbol * stride
            for symbol, size, stride in zip(symbols, source.size, source.stride, strict=True)
            if size > 1
        )
    )
    value = Load(load.buffer, index, load.dtype)
    return LoopOp(copy.name, copy.name, load.dtype, sizes, (), value, index, origin=op.origin)


def _write_to_buffer(
    op: LoopOp, copy: Restickify, tensors: dict[str, Tensor]
) -> tuple[LoopOp, LoopOp]:
    """Return the op with a new buffer as target, and the copy from there to the real target."""
    tensors[copy.name] = Tensor(
        copy.name, tuple(copy.size), tuple(copy.stride), copy.dtype, copy.target_layout
    )
    sizes = {symbol: int(size) for symbol, size in copy.ranges.items() if int(size) > 1}
    value = Load(copy.name, copy.index, op.dtype)
    copy_back = replace(op, sizes=sizes, reduced=(), value=value)
    redirected = replace(
        op, name=copy.name, target=copy.name, write=copy.index, is_partial=False, scattered=()
    )
    return redirected, copy_back

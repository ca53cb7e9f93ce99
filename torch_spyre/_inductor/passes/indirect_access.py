"""Ensures that tensors accessed through index tensors have layouts that can be indexed.

An index must be the only term of its device coordinate. If the indexed dim lies along sticks, the
tensor is copied to a table with sticks along another dim, or with one element per stick if there is
no other dim; a table that is written is copied back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts import device_coordinates, host_coordinates
from torch_spyre._inductor.layouts.sticks import layout_with_stick
from torch_spyre._inductor.loop_ir import Load, LoopOp, Node
from torch_spyre._inductor.loop_rewriting import with_leaves
from torch_spyre.errors import UnsupportedError

_SPARSE = -1
Indirect = Sequence[tuple[Symbol, Load]]


def enforce_indirect_layouts(bundle: Bundle) -> Bundle:
    """Copy tensors whose layouts cannot be indexed, and redirect the ops to the copies."""
    tensors = dict(bundle.tensors)
    ops: list[LoopOp] = []
    # Copies of tensors that have not been written since: many ops may read one table.
    copies: dict[str, list[Tensor]] = {}
    for op in bundle.ops:
        replacements: dict[Node, Node] = {}
        for load in op.loads:
            if _is_accessible(load.index, load.indirect, op.sizes, tensors[load.buffer]):
                continue
            known = copies.setdefault(load.buffer, [])
            tables = [
                table
                for table in known
                if _is_accessible(load.index, load.indirect, op.sizes, table)
            ]
            if not tables:
                tables = [_table(load.buffer, load.index, load.indirect, op.sizes, tensors)]
                known += tables
                ops.append(_copy(tensors[load.buffer], tables[0], op))
            replacements[load] = replace(load, buffer=tables[0].name)
        op = with_leaves(op, replacements)
        copies.pop(op.target, None)
        if _is_accessible(op.write, op.scattered, op.sizes, tensors[op.target]):
            ops.append(op)
            continue
        target = tensors[op.target]
        table = _table(op.target, op.write, op.scattered, op.sizes, tensors)
        ops.append(_copy(target, table, op))
        ops.append(replace(op, name=f"{table.name}_written", target=table.name))
        ops.append(replace(_copy(table, target, op), name=op.name))
    return replace(bundle, ops=tuple(ops), tensors=tensors)


def _is_accessible(
    index: sympy.Expr, indirect: Indirect, sizes: Mapping[Symbol, int], tensor: Tensor
) -> bool:
    """Return whether every index is the only term of its device coordinate."""
    if not indirect:
        return True
    assert tensor.layout is not None
    size, stride = tensor.layout.device_size, tensor.layout.stride_map
    coordinates = device_coordinates(size, stride, sizes, index + tensor.offset)
    symbols = {symbol for symbol, _ in indirect}
    for extent, coordinate in zip(size, coordinates, strict=True):
        if coordinate in symbols:
            # A view may merge several device dims into one.
            factor = index.coeff(coordinate)
            if extent < max(_extents(tensor, factor), default=0):
                return False
        elif coordinate.free_symbols & symbols:
            return False
    return True


def _extents(tensor: Tensor, factor: sympy.Expr) -> list[int]:
    dims = zip(tensor.size, tensor.stride, strict=True)
    return [size for size, stride in dims if stride == factor]


def _table(
    name: str,
    index: sympy.Expr,
    indirect: Indirect,
    sizes: Mapping[Symbol, int],
    tensors: dict[str, Tensor],
) -> Tensor:
    """Add a tensor of the same size, in a layout that can be indexed; return it."""
    source = _unambiguous(tensors[name])
    symbols = {symbol for symbol, _ in indirect}
    coordinates = host_coordinates(source.size, source.stride, sizes, index)
    free = [
        dim
        for dim, coordinate in enumerate(coordinates)
        if source.size[dim] > 1 and not coordinate.free_symbols & symbols
    ]
    stick = free[-1] if free else _SPARSE
    layout = layout_with_stick(source.size, source.stride, source.dtype, stick)
    table_name = f"{source.name}_table{len(tensors)}"
    table = Tensor(table_name, source.size, source.stride, source.dtype, layout)
    if not _is_accessible(index, indirect, sizes, table):
        raise UnsupportedError(f"indices into {name}, which has several dims with equal strides")
    tensors[table_name] = table
    return table


def _copy(source: Tensor, target: Tensor, op: LoopOp) -> LoopOp:
    """Return the op that copies a whole tensor."""
    dims = [Symbol(f"c{dim}", integer=True) for dim in range(len(source.size))]
    sizes = {symbol: size for symbol, size in zip(dims, source.size, strict=True) if size > 1}
    index = sympy.Add(
        *(symbol * source.stride[dim] for dim, symbol in enumerate(dims) if symbol in sizes)
    )
    value = Load(source.name, index, source.dtype)
    return LoopOp(target.name, target.name, source.dtype, sizes, (), value, index, origin=op.origin)


def _unambiguous(tensor: Tensor) -> Tensor:
    """Return the tensor with strides of size-1 dims that no other dim has."""
    unused = max(size * stride for size, stride in zip(tensor.size, tensor.stride, strict=True))
    dims = zip(tensor.size, tensor.stride, strict=True)
    return replace(tensor, stride=tuple(stride if size > 1 else unused for size, stride in dims))

"""Makes tensors accessible that are read or written through indices.

An index must be alone in its device dim. Where the dim that is indexed lies along sticks, the
tensor is copied first, with its sticks along another dim, or with one element to a stick if there
is no other; and copied back, if it is written.
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
    tensors = dict(bundle.tensors)
    ops: list[LoopOp] = []
    # Copies of what has not been written since: a table is often read by many ops.
    copies: dict[str, list[Tensor]] = {}
    for op in bundle.ops:
        replaced: dict[Node, Node] = {}
        for load in op.loads:
            if _accessible(load.index, load.indirect, op.sizes, tensors[load.buffer]):
                continue
            known = copies.setdefault(load.buffer, [])
            fits = [
                each for each in known if _accessible(load.index, load.indirect, op.sizes, each)
            ]
            if not fits:
                fits = [_table(load.buffer, load.index, load.indirect, op.sizes, tensors)]
                known += fits
                ops.append(_copy(tensors[load.buffer], fits[0], op))
            replaced[load] = replace(load, buffer=fits[0].name)
        op = with_leaves(op, replaced)
        copies.pop(op.target, None)
        if _accessible(op.write, op.scattered, op.sizes, tensors[op.target]):
            ops.append(op)
            continue
        target = tensors[op.target]
        table = _table(op.target, op.write, op.scattered, op.sizes, tensors)
        ops.append(_copy(target, table, op))
        ops.append(replace(op, name=f"{table.name}_written", target=table.name))
        ops.append(replace(_copy(table, target, op), name=op.name))
    return replace(bundle, ops=tuple(ops), tensors=tensors)


def _accessible(
    index: sympy.Expr, indirect: Indirect, sizes: Mapping[Symbol, int], tensor: Tensor
) -> bool:
    if not indirect:
        return True
    assert tensor.layout is not None
    size, stride = tensor.layout.device_size, tensor.layout.stride_map
    coordinates = device_coordinates(size, stride, sizes, index + tensor.offset)
    symbols = {symbol for symbol, _ in indirect}
    for extent, coordinate in zip(size, coordinates, strict=True):
        if coordinate in symbols:
            # A view may see several device dims as one.
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
    """A tensor like this one, in a layout in which the index can be used."""
    source = _unambiguous(tensors[name])
    symbols = {symbol for symbol, _ in indirect}
    where = host_coordinates(source.size, source.stride, sizes, index)
    free = [
        dim
        for dim, coordinate in enumerate(where)
        if source.size[dim] > 1 and not coordinate.free_symbols & symbols
    ]
    stick = free[-1] if free else _SPARSE
    layout = layout_with_stick(source.size, source.stride, source.dtype, stick)
    made = f"{source.name}_table{len(tensors)}"
    table = Tensor(made, source.size, source.stride, source.dtype, layout)
    if not _accessible(index, indirect, sizes, table):
        raise UnsupportedError("indices along dims that cannot be told apart")
    tensors[made] = table
    return table


def _copy(source: Tensor, target: Tensor, op: LoopOp) -> LoopOp:
    """All of one tensor into the other."""
    dims = [Symbol(f"c{dim}", integer=True) for dim in range(len(source.size))]
    sizes = {symbol: size for symbol, size in zip(dims, source.size, strict=True) if size > 1}
    index = sympy.Add(
        *(symbol * source.stride[dim] for dim, symbol in enumerate(dims) if symbol in sizes)
    )
    value = Load(source.name, index, source.dtype)
    return LoopOp(
        target.name, target.name, source.dtype, sizes, (), value, index, origins=op.origins
    )


def _unambiguous(tensor: Tensor) -> Tensor:
    """Dims of one element have strides that no other dim has."""
    most = max(size * stride for size, stride in zip(tensor.size, tensor.stride, strict=True))
    dims = zip(tensor.size, tensor.stride, strict=True)
    return replace(tensor, stride=tuple(stride if size > 1 else most for size, stride in dims))

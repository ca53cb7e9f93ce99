"""Makes tables that are read through indices readable: an index must be alone in its device dim.

Where the dim that is indexed lies along sticks, the table is copied first, with its sticks along
another dim, or with one element to a stick if there is no other.
"""

from dataclasses import replace

import sympy
from sympy import Symbol

from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts import device_coordinates, host_coordinates
from torch_spyre._inductor.layouts.sticks import layout_with_stick
from torch_spyre._inductor.loops import Load, LoopOp
from torch_spyre._inductor.passes.layouts import with_loads
from torch_spyre.errors import UnsupportedError

_SPARSE = -1


def enforce_indirect_layouts(bundle: Bundle) -> Bundle:
    tensors = dict(bundle.tensors)
    ops: list[LoopOp] = []
    for op in bundle.ops:
        replaced: dict[Load, Load] = {}
        for load in op.loads:
            if not load.indirect or _readable(load, op, tensors[load.buffer]):
                continue
            copy = _copied(load, op, tensors)
            ops.append(copy)
            replaced[load] = replace(load, buffer=copy.name)
        ops.append(with_loads(op, replaced))
    return replace(bundle, ops=tuple(ops), tensors=tensors)


def _readable(load: Load, op: LoopOp, tensor: Tensor) -> bool:
    assert tensor.layout is not None
    size, stride = tensor.layout.device_size, tensor.layout.stride_map
    coordinates = device_coordinates(size, stride, op.sizes, load.index + tensor.offset)
    symbols = {symbol for symbol, _ in load.indirect}
    for extent, coordinate in zip(size, coordinates, strict=True):
        if coordinate in symbols:
            # A view may see several device dims as one.
            factor = load.index.coeff(coordinate)
            if extent < max(_extents(tensor, factor), default=0):
                return False
        elif coordinate.free_symbols & symbols:
            return False
    return True


def _extents(tensor: Tensor, factor: sympy.Expr) -> list[int]:
    dims = zip(tensor.size, tensor.stride, strict=True)
    return [size for size, stride in dims if stride == factor]


def _copied(load: Load, op: LoopOp, tensors: dict[str, Tensor]) -> LoopOp:
    source = _unambiguous(tensors[load.buffer])
    symbols = {symbol for symbol, _ in load.indirect}
    where = host_coordinates(source.size, source.stride, op.sizes, load.index)
    free = [
        dim
        for dim, coordinate in enumerate(where)
        if source.size[dim] > 1 and not coordinate.free_symbols & symbols
    ]
    stick = free[-1] if free else _SPARSE
    layout = layout_with_stick(source.size, source.stride, source.dtype, stick)
    name = f"{source.name}_table{len(tensors)}"
    tensors[name] = Tensor(name, source.size, source.stride, source.dtype, layout)
    dims = [Symbol(f"c{dim}", integer=True) for dim in range(len(source.size))]
    sizes = {symbol: size for symbol, size in zip(dims, source.size, strict=True) if size > 1}
    index = sympy.Add(
        *(symbol * source.stride[dim] for dim, symbol in enumerate(dims) if symbol in sizes)
    )
    value = Load(source.name, index, load.dtype)
    if not _readable(load, op, tensors[name]):
        raise UnsupportedError("indices along dims that cannot be told apart")
    return LoopOp(name, name, load.dtype, sizes, (), value, index, False, op.origins)


def _unambiguous(tensor: Tensor) -> Tensor:
    """Dims of one element have strides that no other dim has."""
    most = max(size * stride for size, stride in zip(tensor.size, tensor.stride, strict=True))
    dims = zip(tensor.size, tensor.stride, strict=True)
    return replace(tensor, stride=tuple(stride if size > 1 else most for size, stride in dims))

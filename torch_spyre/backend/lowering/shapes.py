"""Ops of `tensor` and `linalg` that change how elements are seen, and seldom move any."""

from dataclasses import replace

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import BroadcastOp, TransposeOp
from xdsl.ir import Operation

from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import ExtractElement
from torch_spyre.backend.lowering.values import (
    Extent,
    Splat,
    Tensor,
    TensorView,
    Undefined,
    count,
)
from torch_spyre.backend.program.instructions import NO_REGISTER
from torch_spyre.ktir.dialects.tensor import ExpandShapeOp


def lower_empty(kernel: KernelContext, operation: tensor.EmptyOp) -> None:
    found = operation.tensor
    assert isinstance(found.type, TensorType)
    sizes = kernel.mixed(found.type.get_shape(), operation.dynamic_sizes)
    extents = tuple(map(kernel.extent, sizes))
    kernel.tensors[found] = Undefined(kernel.element_type(found.type), extents)


def lower_splat(kernel: KernelContext, operation: tensor.SplatOp) -> None:
    assert isinstance(operation.result.type, TensorType)
    sizes = kernel.mixed(operation.result.type.get_shape(), operation.dynamicSizes)
    extents = tuple(map(kernel.extent, sizes))
    register = kernel.scalar(operation.input)
    type = kernel.element_type(operation.result.type)
    kernel.tensors[operation.result] = Splat(register, type, extents)


def lower_from_elements(kernel: KernelContext, operation: tensor.FromElementsOp) -> None:
    extents = kernel.shape_of(operation.result.type)
    type = kernel.element_type(operation.result.type)
    registers = [kernel.scalar(value) for value in operation.elements]
    if len(set(registers)) == 1:
        kernel.tensors[operation.result] = Splat(registers[0], type, extents)
        return
    result = kernel.new(type, extents, operation.result)
    one = kernel.static_extent(1)
    for position, register in enumerate(registers):
        element = TensorView(result.buffer, type, (one,), (1,), position)
        kernel.write(Splat(register, type, (one,)), element, whole=False)
    kernel.tensors[operation.result] = result


def lower_extract(kernel: KernelContext, operation: tensor.ExtractOp) -> None:
    source = kernel.tensor(operation.tensor)
    if isinstance(source, Splat):
        kernel.scalars[operation.result] = source.register
        return
    found = kernel.in_memory(source)
    indices = tuple(kernel.scalar(index) for index in operation.indices)
    destination = kernel.registers.new()
    kernel.add(ExtractElement(kernel.location, destination, found, indices))
    kernel.scalars[operation.result] = destination


def lower_insert(kernel: KernelContext, operation: tensor.InsertOp) -> None:
    dest = kernel.tensor(operation.dest)
    result = kernel.new(dest.type, dest.extents, operation.result)
    kernel.write(dest, result)
    offsets = [kernel.scalar(index) for index in operation.indices]
    one = kernel.static_extent(1)
    element = _sliced(kernel, result, offsets, [one] * len(offsets), [1] * len(offsets))
    element = TensorView(
        element.buffer, element.type, (one,), (1,), element.offset, element.offset_register
    )
    value = Splat(kernel.scalar(operation.scalar), dest.type, (one,))
    kernel.write(value, element, whole=False)
    kernel.tensors[operation.result] = result


def lower_reshape(kernel: KernelContext, operation: Operation) -> None:
    """expand_shape, collapse_shape, reshape, cast: the elements in row-major order, as declared."""
    result = operation.results[0]
    source = kernel.tensor(operation.operands[0])
    assert isinstance(result.type, TensorType)
    extents = _declared(kernel, result.type, source, operation)
    if not isinstance(source, TensorView):
        kernel.tensors[result] = replace(source, extents=extents)
        return
    if extents == source.extents:
        kernel.tensors[result] = source
        return
    dynamic = not all(extent.known for extent in (*extents, *source.extents))
    if dynamic or count(extents) != count(source.extents):
        raise kernel.error(
            f"{operation.operands[0].type} into {result.type}: the number of elements must be "
            "known and stay the same"
        )
    kernel.tensors[result] = kernel.in_shape(source, extents)


def _declared(
    kernel: KernelContext, declared: TensorType, source: Tensor, operation: Operation
) -> tuple[Extent, ...]:
    if isinstance(operation, ExpandShapeOp):
        static = operation.static_output_shape.get_values()
        return tuple(map(kernel.extent, kernel.mixed(static, operation.dynamic_output_shape)))
    same_rank = len(source.extents) == declared.get_num_dims()
    return kernel.shape_of(declared, source.extents if same_rank else None)


def lower_transpose(kernel: KernelContext, operation: TransposeOp) -> None:
    source = kernel.tensor(operation.inputs[0])
    order = operation.permutation.get_values()
    extents = tuple(source.extents[dim] for dim in order)
    if isinstance(source, TensorView):
        strides = tuple(source.strides[dim] for dim in order)
        kernel.tensors[operation.res[0]] = replace(source, extents=extents, strides=strides)
    else:
        kernel.tensors[operation.res[0]] = replace(source, extents=extents)


def lower_broadcast(kernel: KernelContext, operation: BroadcastOp) -> None:
    source, init = kernel.tensor(operation.input), kernel.tensor(operation.init)
    new = set(operation.dimensions.get_values())
    if isinstance(source, TensorView):
        kept = iter(source.strides)
        strides = tuple(0 if dim in new else next(kept) for dim in range(len(init.extents)))
        kernel.tensors[operation.result[0]] = replace(source, extents=init.extents, strides=strides)
    else:
        kernel.tensors[operation.result[0]] = replace(source, extents=init.extents)


def lower_extract_slice(kernel: KernelContext, operation: tensor.ExtractSliceOp) -> None:
    source = kernel.tensor(operation.source)
    offsets, sizes, strides = _slice_of(kernel, operation)
    assert isinstance(operation.result.type, TensorType)
    kept = _kept_dims(kernel, sizes, operation.result.type)
    extents = tuple(sizes[dim] for dim in kept)
    if not isinstance(source, TensorView):
        kernel.tensors[operation.result] = replace(source, extents=extents)
        return
    view = _sliced(kernel, source, offsets, sizes, strides)
    kernel.tensors[operation.result] = replace(
        view, extents=extents, strides=tuple(view.strides[dim] for dim in kept)
    )


def lower_insert_slice(kernel: KernelContext, operation: tensor.InsertSliceOp) -> None:
    source, dest = kernel.tensor(operation.source), kernel.tensor(operation.dest)
    offsets, sizes, strides = _slice_of(kernel, operation)
    result = kernel.new(dest.type, dest.extents, operation.result)
    kernel.write(dest, result)
    assert isinstance(operation.source.type, TensorType)
    kept = _kept_dims(kernel, sizes, operation.source.type)
    view = _sliced(kernel, result, offsets, sizes, strides)
    part = replace(
        view,
        extents=tuple(sizes[dim] for dim in kept),
        strides=tuple(view.strides[dim] for dim in kept),
    )
    kernel.write(source, part, whole=False)
    kernel.tensors[operation.result] = result


def _slice_of(
    kernel: KernelContext, operation: tensor.ExtractSliceOp | tensor.InsertSliceOp
) -> tuple[list[int], list[Extent], list[int]]:
    """Offsets in registers, sizes, and strides, which must be known."""
    offsets = kernel.mixed(operation.static_offsets.get_values(), operation.offsets)
    sizes = kernel.mixed(operation.static_sizes.get_values(), operation.sizes)
    steps = kernel.mixed(operation.static_strides.get_values(), operation.strides)
    strides = [kernel.registers.known(register) for register in steps]
    known = [stride for stride in strides if stride is not None and stride >= 0]
    if len(known) != len(strides):
        raise kernel.error("strides of a slice must be known and not negative")
    return offsets, [kernel.extent(register) for register in sizes], known


def _kept_dims(kernel: KernelContext, sizes: list[Extent], declared: TensorType) -> list[int]:
    """The dims that remain when the result drops some of size 1."""
    dims = list(range(len(sizes)))
    shape = declared.get_shape()
    while len(dims) > len(shape):
        drop = next(
            (
                position
                for position, dim in enumerate(dims)
                if sizes[dim].known
                and sizes[dim].upper == 1
                and (position >= len(shape) or shape[position] != 1)
            ),
            None,
        )
        if drop is None:
            drop = next((p for p, dim in enumerate(dims) if sizes[dim].upper == 1), None)
        if drop is None:
            raise kernel.error(f"the slice does not have the shape of {declared}")
        del dims[drop]
    return dims


def _sliced(
    kernel: KernelContext,
    source: TensorView,
    offsets: list[int],
    sizes: list[Extent],
    strides: list[int],
) -> TensorView:
    offset, register = source.offset, source.offset_register
    for start, stride, extent, size, step in zip(
        offsets, source.strides, source.extents, sizes, strides, strict=True
    ):
        known = kernel.registers.known(start)
        if known is not None:
            last = known + (size.upper - 1) * step
            # A size of which only a bound is known is checked when the slice is used.
            surely = size.known and extent.known and size.upper > 0
            if known < 0 or (surely and last >= extent.upper):
                raise kernel.error(f"a slice from {known} to {last} of {extent.upper} elements")
            offset += known * stride
            continue
        moved = kernel.integer("muli", start, kernel.constant(stride))
        register = moved if register == NO_REGISTER else kernel.integer("addi", register, moved)
    return TensorView(
        source.buffer,
        source.type,
        tuple(sizes),
        tuple(
            stride * step if size.upper != 1 else 0
            for stride, step, size in zip(source.strides, strides, sizes, strict=True)
        ),
        offset,
        register,
    )


def lower_concat(kernel: KernelContext, operation: tensor.ConcatOp) -> None:
    axis = operation.dim.value.data
    parts = [kernel.tensor(value) for value in operation.inputs]
    total = kernel.constant(0)
    starts = []
    for part in parts:
        starts.append(total)
        total = kernel.integer("addi", total, part.extents[axis].register)
    extents = list(parts[0].extents)
    extents[axis] = kernel.extent(total)
    result = kernel.new(parts[0].type, tuple(extents), operation.result)
    for part, start in zip(parts, starts, strict=True):
        offsets = [kernel.constant(0)] * len(extents)
        offsets[axis] = start
        view = _sliced(kernel, result, offsets, list(part.extents), [1] * len(extents))
        kernel.write(part, view, whole=False)
    kernel.tensors[operation.result] = result


def lower_dim(kernel: KernelContext, operation: tensor.DimOp) -> None:
    index = kernel.registers.known(kernel.scalar(operation.index))
    extents = kernel.tensor(operation.source).extents
    if index is None or not 0 <= index < len(extents):
        raise kernel.error("the dim must be known and be one of the tensor's")
    kernel.scalars[operation.result] = extents[index].register

"""Lowers ops of `tensor` and `linalg` on shapes: views where possible, copies otherwise."""

from collections.abc import Sequence
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
    dynamic_reshape,
    max_elements,
)
from torch_spyre.backend.program.instructions import NO_REGISTER
from torch_spyre.ktir.dialects.tensor import ExpandShapeOp


def lower_empty(kernel: KernelContext, operation: tensor.EmptyOp) -> None:
    result = operation.tensor
    assert isinstance(result.type, TensorType)
    sizes = kernel.mixed_values(result.type.get_shape(), operation.dynamic_sizes)
    extents = tuple(map(kernel.extent, sizes))
    kernel.tensors[result] = Undefined(kernel.element_type(result.type), extents)


def lower_splat(kernel: KernelContext, operation: tensor.SplatOp) -> None:
    assert isinstance(operation.result.type, TensorType)
    sizes = kernel.mixed_values(operation.result.type.get_shape(), operation.dynamicSizes)
    extents = tuple(map(kernel.extent, sizes))
    register = kernel.scalar(operation.input)
    type = kernel.element_type(operation.result.type)
    kernel.tensors[operation.result] = Splat(register, type, extents)


def lower_from_elements(kernel: KernelContext, operation: tensor.FromElementsOp) -> None:
    extents = kernel.extents_of(operation.result.type)
    type = kernel.element_type(operation.result.type)
    registers = [kernel.scalar(value) for value in operation.elements]
    if len(set(registers)) == 1:
        kernel.tensors[operation.result] = Splat(registers[0], type, extents)
        return
    result = kernel.allocate(type, extents, operation.result)
    one = kernel.static_extent(1)
    for position, register in enumerate(registers):
        element = TensorView(result.buffer, type, (one,), (1,), position)
        kernel.write(Splat(register, type, (one,)), element, writes_all=False)
    kernel.tensors[operation.result] = result


def lower_extract(kernel: KernelContext, operation: tensor.ExtractOp) -> None:
    source = kernel.tensor(operation.tensor)
    if isinstance(source, Splat):
        kernel.scalars[operation.result] = source.register
        return
    view = kernel.to_buffer(source)
    indices = tuple(kernel.scalar(index) for index in operation.indices)
    destination = kernel.registers.new()
    kernel.add(ExtractElement(kernel.location, destination, view, indices))
    kernel.scalars[operation.result] = destination


def lower_insert(kernel: KernelContext, operation: tensor.InsertOp) -> None:
    dest = kernel.tensor(operation.dest)
    result = kernel.allocate(dest.type, dest.extents, operation.result)
    kernel.write(dest, result)
    offsets = [kernel.scalar(index) for index in operation.indices]
    one = kernel.static_extent(1)
    element = _slice_view(kernel, result, offsets, [one] * len(offsets), [1] * len(offsets))
    element = TensorView(
        element.buffer, element.type, (one,), (1,), element.offset, element.offset_register
    )
    value = Splat(kernel.scalar(operation.scalar), dest.type, (one,))
    kernel.write(value, element, writes_all=False)
    kernel.tensors[operation.result] = result


def lower_reshape(kernel: KernelContext, operation: Operation) -> None:
    """Lower expand_shape, collapse_shape, reshape and cast, which preserve row-major order."""
    result = operation.results[0]
    source = kernel.tensor(operation.operands[0])
    assert isinstance(result.type, TensorType)
    extents = _result_extents(kernel, result.type, source, operation)
    if not isinstance(source, TensorView):
        kernel.tensors[result] = replace(source, extents=extents)
        return
    if extents == source.extents:
        kernel.tensors[result] = source
        return
    is_static = all(extent.is_static for extent in (*extents, *source.extents))
    if is_static and max_elements(extents) == max_elements(source.extents):
        kernel.tensors[result] = kernel.reshape(source, extents)
        return
    view = None
    if not is_static and isinstance(operation, ExpandShapeOp | tensor.CollapseShapeOp):
        view = dynamic_reshape(source, extents, _groups(operation))
        view = view or dynamic_reshape(kernel.to_contiguous(source), extents, _groups(operation))
    if view is None:
        raise kernel.error(
            f"cannot reshape {operation.operands[0].type} to {result.type}: the number of elements "
            "must be static and the same, or the outermost of the dims that are split or merged"
        )
    kernel.tensors[result] = view


def _groups(operation: ExpandShapeOp | tensor.CollapseShapeOp) -> list[list[int]]:
    """Return the dims of the higher rank that each dim of the lower rank stands for."""
    return [[dim.value.data for dim in group] for group in operation.reassociation]


def _result_extents(
    kernel: KernelContext, declared: TensorType, source: Tensor, operation: Operation
) -> tuple[Extent, ...]:
    """Return the extents of the declared result of a reshape of the source."""
    if isinstance(operation, ExpandShapeOp):
        static = operation.static_output_shape.get_values()
        return tuple(
            map(kernel.extent, kernel.mixed_values(static, operation.dynamic_output_shape))
        )
    if isinstance(operation, tensor.CollapseShapeOp):
        groups = [[source.extents[dim] for dim in group] for group in _groups(operation)]
        return tuple(_product(kernel, group) for group in groups)
    same_rank = len(source.extents) == declared.get_num_dims()
    return kernel.extents_of(declared, source.extents if same_rank else None)


def _product(kernel: KernelContext, extents: Sequence[Extent]) -> Extent:
    register = kernel.constant(1)
    for extent in extents:
        register = kernel.compute_index("muli", register, extent.register)
    return kernel.extent(register)


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
    new_dims = set(operation.dimensions.get_values())
    if isinstance(source, TensorView):
        source_strides = iter(source.strides)
        strides = tuple(
            0 if dim in new_dims else next(source_strides) for dim in range(len(init.extents))
        )
        kernel.tensors[operation.result[0]] = replace(source, extents=init.extents, strides=strides)
    else:
        kernel.tensors[operation.result[0]] = replace(source, extents=init.extents)


def lower_extract_slice(kernel: KernelContext, operation: tensor.ExtractSliceOp) -> None:
    source = kernel.tensor(operation.source)
    offsets, sizes, strides = _slice_parameters(kernel, operation)
    assert isinstance(operation.result.type, TensorType)
    dims = _retained_dims(kernel, sizes, operation.result.type)
    extents = tuple(sizes[dim] for dim in dims)
    if not isinstance(source, TensorView):
        kernel.tensors[operation.result] = replace(source, extents=extents)
        return
    view = _slice_view(kernel, source, offsets, sizes, strides)
    kernel.tensors[operation.result] = replace(
        view, extents=extents, strides=tuple(view.strides[dim] for dim in dims)
    )


def lower_insert_slice(kernel: KernelContext, operation: tensor.InsertSliceOp) -> None:
    source, dest = kernel.tensor(operation.source), kernel.tensor(operation.dest)
    offsets, sizes, strides = _slice_parameters(kernel, operation)
    result = kernel.allocate(dest.type, dest.extents, operation.result)
    kernel.write(dest, result)
    assert isinstance(operation.source.type, TensorType)
    dims = _retained_dims(kernel, sizes, operation.source.type)
    view = _slice_view(kernel, result, offsets, sizes, strides)
    destination = replace(
        view,
        extents=tuple(sizes[dim] for dim in dims),
        strides=tuple(view.strides[dim] for dim in dims),
    )
    kernel.write(source, destination, writes_all=False)
    kernel.tensors[operation.result] = result


def _slice_parameters(
    kernel: KernelContext, operation: tensor.ExtractSliceOp | tensor.InsertSliceOp
) -> tuple[list[int], list[Extent], list[int]]:
    """Return the offsets in registers, the sizes, and the strides, which must be static."""
    offsets = kernel.mixed_values(operation.static_offsets.get_values(), operation.offsets)
    sizes = kernel.mixed_values(operation.static_sizes.get_values(), operation.sizes)
    steps = kernel.mixed_values(operation.static_strides.get_values(), operation.strides)
    strides = [kernel.registers.constant_value(register) for register in steps]
    known = [stride for stride in strides if stride is not None and stride >= 0]
    if len(known) != len(strides):
        raise kernel.error("strides of a slice must be static and not negative")
    return offsets, [kernel.extent(register) for register in sizes], known


def _retained_dims(kernel: KernelContext, sizes: list[Extent], declared: TensorType) -> list[int]:
    """Return the dims of a slice that remain when the declared type drops some of size 1."""
    dims = list(range(len(sizes)))
    shape = declared.get_shape()
    while len(dims) > len(shape):
        drop = next(
            (
                position
                for position, dim in enumerate(dims)
                if sizes[dim].is_static
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


def _slice_view(
    kernel: KernelContext,
    source: TensorView,
    offsets: list[int],
    sizes: list[Extent],
    strides: list[int],
) -> TensorView:
    """Return the view of a slice; raise if it is known to be out of bounds."""
    offset, register = source.offset, source.offset_register
    for start, stride, extent, size, step in zip(
        offsets, source.strides, source.extents, sizes, strides, strict=True
    ):
        known = kernel.registers.constant_value(start)
        if known is not None:
            last = known + (size.upper - 1) * step
            # A slice of dynamic size is checked when it is used.
            is_static = size.is_static and extent.is_static and size.upper > 0
            if known < 0 or (is_static and last >= extent.upper):
                raise kernel.error(
                    f"a slice from {known} to {last} of {extent.upper} elements is out of bounds"
                )
            offset += known * stride
            continue
        distance = kernel.compute_index("muli", start, kernel.constant(stride))
        if register == NO_REGISTER:
            register = distance
        else:
            register = kernel.compute_index("addi", register, distance)
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
    tensors = [kernel.tensor(value) for value in operation.inputs]
    total = kernel.constant(0)
    starts = []
    for input_tensor in tensors:
        starts.append(total)
        total = kernel.compute_index("addi", total, input_tensor.extents[axis].register)
    extents = list(tensors[0].extents)
    extents[axis] = kernel.extent(total)
    result = kernel.allocate(tensors[0].type, tuple(extents), operation.result)
    for input_tensor, start in zip(tensors, starts, strict=True):
        offsets = [kernel.constant(0)] * len(extents)
        offsets[axis] = start
        view = _slice_view(kernel, result, offsets, list(input_tensor.extents), [1] * len(extents))
        kernel.write(input_tensor, view, writes_all=False)
    kernel.tensors[operation.result] = result


def lower_dim(kernel: KernelContext, operation: tensor.DimOp) -> None:
    index = kernel.registers.constant_value(kernel.scalar(operation.index))
    extents = kernel.tensor(operation.source).extents
    if index is None or not 0 <= index < len(extents):
        raise kernel.error("the dim must be static and below the rank of the tensor")
    kernel.scalars[operation.result] = extents[index].register

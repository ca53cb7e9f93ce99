"""Lowers elementwise ops on tensors, and the same ops on scalars."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from torch_spyre.backend.lowering.chains import ChainBuilder, Handle
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.values import Extent, Splat, Tensor, TensorView
from torch_spyre.backend.lowering.vector_ops import VectorOp, vector_op
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.ktir.affine.expressions import Linearizer
from torch_spyre.ktir.dialects.spyreop import IndexToAddressOp
from torch_spyre.ktir.dialects.tensor import GenerateOp


def lower_vector_op(kernel: KernelContext, operation: Operation) -> bool:
    """Lower an op that one vector instruction implements; return False for any other op."""
    op = vector_op(operation)
    if op is None:
        return False
    if isinstance(op.result.type, TensorType):
        kernel.tensors[op.result] = _apply_to_tensors(kernel, op)
    else:
        kernel.scalars[op.result] = _apply_to_scalars(kernel, op)
    return True


def _apply_to_scalars(kernel: KernelContext, op: VectorOp) -> int:
    operand = kernel.element_type(op.typed_operand.type)
    registers = [kernel.scalar(value) for value in op.operands]
    registers += [kernel.literal(bits, operand) for bits in op.constants]
    result = kernel.element_type(op.result.type)
    if op.name in ("addi", "subi", "muli") and result is ElementType.I64:
        return kernel.compute_index(op.name, registers[0], registers[1])
    return kernel.compute(op.name, operand, result, registers)


def _apply_to_tensors(kernel: KernelContext, op: VectorOp) -> Tensor:
    operand = kernel.element_type(op.typed_operand.type)
    result = kernel.element_type(op.result.type)
    tensors = [
        kernel.tensor(value) if isinstance(value.type, TensorType) else None
        for value in op.operands
    ]
    extents = kernel.extents_of(
        op.result.type, next(tensor.extents for tensor in tensors if tensor is not None)
    )
    for tensor in tensors:
        for extent, size in zip(tensor.extents if tensor else (), extents, strict=False):
            _check_same_size(kernel, size, extent)
    constants = [kernel.literal(bits, operand) for bits in op.constants]
    if not any(isinstance(tensor, TensorView) for tensor in tensors):
        # An op on splats is a splat.
        registers = [
            _register_of(kernel, value, tensor)
            for value, tensor in zip(op.operands, tensors, strict=True)
        ]
        register = kernel.compute(op.name, operand, result, [*registers, *constants])
        return Splat(register, result, extents)
    chain = ChainBuilder(kernel)
    handles = []
    for value, tensor in zip(op.operands, tensors, strict=True):
        if tensor is None:
            type = kernel.element_type(value.type)
            handles.append(chain.scalar(kernel.scalar(value), type))
        else:
            strides = tensor.strides if isinstance(tensor, TensorView) else ()
            handles.append(chain.tensor(tensor, strides))
    handles += [chain.scalar(register, operand) for register in constants]
    output = kernel.allocate(result, extents, op.result)
    step = chain.step(op.name, operand, result, *handles)
    kernel.add(chain.finish(extents, [(step, output)]))
    return output


def _register_of(kernel: KernelContext, value: SSAValue, tensor: Tensor | None) -> int:
    match tensor:
        case None:
            return kernel.scalar(value)
        case Splat():
            return tensor.register
    return kernel.constant(0)


def lower_index_to_address(kernel: KernelContext, operation: IndexToAddressOp) -> None:
    """Lower to base + stride * index."""
    index = kernel.compute(
        "extsi", ElementType.I32, ElementType.I64, [kernel.scalar(operation.index)]
    )
    scaled = kernel.compute_index("muli", index, kernel.constant(operation.stride.value.data))
    base = kernel.constant(operation.base.value.data)
    kernel.scalars[operation.result] = kernel.compute_index("addi", scaled, base)


def lower_fill(kernel: KernelContext, operation: FillOp) -> None:
    extents = kernel.tensor(operation.outputs[0]).extents
    type = kernel.element_type(operation.res[0].type)
    value = operation.inputs[0]
    source_type = kernel.element_type(value.type)
    register = kernel.scalar(value)
    if source_type is not type:
        register = kernel.compute(_conversion(source_type, type), source_type, type, [register])
    kernel.tensors[operation.res[0]] = Splat(register, type, extents)


def _conversion(source_type: ElementType, target_type: ElementType) -> str:
    """Return the cast between two types; integers are signed."""
    if source_type.is_float:
        return "convertf" if target_type.is_float else "fptosi"
    if target_type.is_float:
        return "sitofp"
    return "extsi" if source_type.bytes < target_type.bytes else "trunci"


def map_strides(
    kernel: KernelContext, indexing: AffineMap, tensor: Tensor
) -> tuple[tuple[int, ...], int]:
    """Return a tensor's stride for each loop of an indexing map, and the offset of the start."""
    if not isinstance(tensor, TensorView):
        return (0,) * indexing.num_dims, 0
    linear = Linearizer(indexing.num_dims, ())
    strides, start = [0] * indexing.num_dims, 0
    for expression, stride in zip(indexing.results, tensor.strides, strict=True):
        form = linear.linearize(expression)
        if linear.num_variables > indexing.num_dims:
            raise kernel.error(
                f"an operand is indexed by {expression}: only sums of loop dims are supported"
            )
        start += form.constant * stride
        for variable, coefficient in form.coefficients.items():
            strides[variable] += coefficient * stride
    if min(strides, default=0) < 0:
        raise kernel.error("an operand is indexed with a negative stride, which is not supported")
    return tuple(strides), start


def with_offset(tensor: Tensor, start: int) -> Tensor:
    """Return a tensor whose first element is `start` elements later."""
    if start == 0 or not isinstance(tensor, TensorView):
        return tensor
    return replace(tensor, offset=tensor.offset + start)


def iteration_extents(
    kernel: KernelContext, maps: list[AffineMap], tensors: list[Tensor | None]
) -> tuple[Extent, ...]:
    """Return the size of each loop of a structured op, from operand dims that only it indexes."""
    extents: dict[int, Extent] = {}
    for indexing, tensor in zip(maps, tensors, strict=True):
        if tensor is None:
            continue
        for expression, extent in zip(indexing.results, tensor.extents, strict=True):
            if isinstance(expression, AffineDimExpr):
                _check_same_size(kernel, extents.setdefault(expression.position, extent), extent)
    num_loops = maps[0].num_dims if maps else 0
    missing = [loop for loop in range(num_loops) if loop not in extents]
    if missing:
        raise kernel.error(f"no operand determines the size of loop d{missing[0]}")
    return tuple(extents[loop] for loop in range(num_loops))


def _check_same_size(kernel: KernelContext, left: Extent, right: Extent) -> None:
    """Raise if two sizes differ: the verifier cannot compare sizes that types leave dynamic."""
    if left.is_static and right.is_static and left.upper != right.upper:
        raise kernel.error(
            f"operands of {left.upper} and {right.upper} elements in one dim; sizes must be equal"
        )


def structured_operands(
    kernel: KernelContext, operation: LinalgStructuredOperation
) -> tuple[list[AffineMap], list[Tensor | None]]:
    """Return the indexing maps and the tensors of a structured op; None for a scalar operand."""
    maps = [attribute.data for attribute in operation.get_indexing_maps()]
    tensors = [
        kernel.tensor(value) if isinstance(value.type, TensorType) else None
        for value in operation.operands
    ]
    return maps, tensors


def body_arguments(
    chain: ChainBuilder,
    operands: Sequence[SSAValue],
    maps: list[AffineMap],
    tensors: list[Tensor | None],
) -> list[Handle]:
    """Return the arguments of a structured op's body, one for each of these operands."""
    kernel = chain.kernel
    arguments = []
    for value, indexing, tensor in zip(operands, maps, tensors, strict=True):
        if tensor is None:
            arguments.append(chain.scalar(kernel.scalar(value), kernel.element_type(value.type)))
            continue
        strides, start = map_strides(kernel, indexing, tensor)
        arguments.append(chain.tensor(with_offset(tensor, start), strides))
    return arguments


def lower_parallel(kernel: KernelContext, operation: LinalgStructuredOperation) -> None:
    """Lower a structured op with parallel loops only."""
    maps, tensors = structured_operands(kernel, operation)
    extents = iteration_extents(kernel, maps, tensors)
    chain = ChainBuilder(kernel)
    arguments = body_arguments(chain, operation.operands, maps, tensors)
    yielded = chain.body(operation.body.block, arguments)
    outputs = []
    inputs = len(operation.inputs)
    for handle, result, indexing in zip(yielded, operation.res, maps[inputs:], strict=True):
        assert isinstance(result.type, TensorType)
        init = kernel.tensor(operation.outputs[result.index])
        output = kernel.allocate(kernel.element_type(result.type), init.extents, result)
        strides, start = map_strides(kernel, indexing, output)
        if start or sorted(strides) != sorted(output.strides):
            # The op may not write all elements: the remaining ones have their initial values.
            kernel.write(init, output)
        outputs.append((handle, with_strides(with_offset(output, start), strides)))
        kernel.tensors[result] = output
    kernel.add(chain.finish(extents, outputs))


def with_strides(tensor: Tensor, strides: tuple[int, ...]) -> TensorView:
    assert isinstance(tensor, TensorView)
    return replace(tensor, strides=strides)


def lower_generate(kernel: KernelContext, operation: GenerateOp) -> None:
    """Lower `tensor.generate`, which computes every element from its coordinates."""
    assert isinstance(operation.result.type, TensorType)
    sizes = kernel.mixed_values(operation.result.type.get_shape(), operation.dynamic_extents)
    extents = tuple(map(kernel.extent, sizes))
    chain = ChainBuilder(kernel)
    indices = [chain.index(dim) for dim in range(len(extents))]
    (value,) = chain.body(operation.body.block, list(indices))
    output = kernel.allocate(kernel.element_type(operation.result.type), extents, operation.result)
    kernel.add(chain.finish(extents, [(value, output)]))
    kernel.tensors[operation.result] = output

"""Ops that work element by element, and scalars, which are computed the same way."""

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
    """Lowers an op that is one vector instruction; False if it is not."""
    found = vector_op(operation)
    if found is None:
        return False
    if isinstance(found.result.type, TensorType):
        kernel.tensors[found.result] = _on_tensors(kernel, found)
    else:
        kernel.scalars[found.result] = _on_scalars(kernel, found)
    return True


def _on_scalars(kernel: KernelContext, found: VectorOp) -> int:
    operand = kernel.element_type(found.typed_operand.type)
    registers = [kernel.scalar(value) for value in found.operands]
    registers += [kernel.literal(bits, operand) for bits in found.constants]
    result = kernel.element_type(found.result.type)
    if found.name in ("addi", "subi", "muli") and result is ElementType.I64:
        return kernel.integer(found.name, registers[0], registers[1])
    return kernel.compute(found.name, operand, result, registers)


def _on_tensors(kernel: KernelContext, found: VectorOp) -> Tensor:
    operand = kernel.element_type(found.typed_operand.type)
    result = kernel.element_type(found.result.type)
    tensors = [
        kernel.tensor(value) if isinstance(value.type, TensorType) else None
        for value in found.operands
    ]
    extents = kernel.shape_of(
        found.result.type, next(tensor.extents for tensor in tensors if tensor is not None)
    )
    for tensor in tensors:
        for extent, size in zip(tensor.extents if tensor else (), extents, strict=False):
            _verify_same(kernel, size, extent)
    constants = [kernel.literal(bits, operand) for bits in found.constants]
    if not any(isinstance(tensor, TensorView) for tensor in tensors):
        # One number everywhere stays one number.
        registers = [
            _register_of(kernel, value, tensor)
            for value, tensor in zip(found.operands, tensors, strict=True)
        ]
        register = kernel.compute(found.name, operand, result, [*registers, *constants])
        return Splat(register, result, extents)
    chain = ChainBuilder(kernel)
    handles = []
    for value, tensor in zip(found.operands, tensors, strict=True):
        if tensor is None:
            type = kernel.element_type(value.type)
            handles.append(chain.scalar(kernel.scalar(value), type))
        else:
            strides = tensor.strides if isinstance(tensor, TensorView) else ()
            handles.append(chain.tensor(tensor, strides))
    handles += [chain.scalar(register, operand) for register in constants]
    output = kernel.new(result, extents, found.result)
    step = chain.step(found.name, operand, result, *handles)
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
    """base + stride * index"""
    index = kernel.compute(
        "extsi", ElementType.I32, ElementType.I64, [kernel.scalar(operation.index)]
    )
    scaled = kernel.integer("muli", index, kernel.constant(operation.stride.value.data))
    base = kernel.constant(operation.base.value.data)
    kernel.scalars[operation.result] = kernel.integer("addi", scaled, base)


def lower_fill(kernel: KernelContext, operation: FillOp) -> None:
    extents = kernel.tensor(operation.outputs[0]).extents
    type = kernel.element_type(operation.res[0].type)
    value = operation.inputs[0]
    given = kernel.element_type(value.type)
    register = kernel.scalar(value)
    if given is not type:
        register = kernel.compute(_conversion(given, type), given, type, [register])
    kernel.tensors[operation.res[0]] = Splat(register, type, extents)


def _conversion(given: ElementType, wanted: ElementType) -> str:
    """The cast between two types; integers have signs."""
    if given.is_float:
        return "convertf" if wanted.is_float else "fptosi"
    if wanted.is_float:
        return "sitofp"
    return "extsi" if given.bytes < wanted.bytes else "trunci"


def strides_under(
    kernel: KernelContext, indexing: AffineMap, tensor: Tensor
) -> tuple[tuple[int, ...], int]:
    """How far each iteration dim moves through a tensor that a map indexes, and the start."""
    if not isinstance(tensor, TensorView):
        return (0,) * indexing.num_dims, 0
    linear = Linearizer(indexing.num_dims, ())
    strides, start = [0] * indexing.num_dims, 0
    for expression, stride in zip(indexing.results, tensor.strides, strict=True):
        form = linear.linearize(expression)
        if linear.num_variables > indexing.num_dims:
            raise kernel.error(f"an operand indexed by {expression}: only sums of loop dims are")
        start += form.constant * stride
        for variable, coefficient in form.coefficients.items():
            strides[variable] += coefficient * stride
    if min(strides, default=0) < 0:
        raise kernel.error("an operand walked backwards")
    return tuple(strides), start


def moved(tensor: Tensor, start: int) -> Tensor:
    if start == 0 or not isinstance(tensor, TensorView):
        return tensor
    return replace(tensor, offset=tensor.offset + start)


def iteration_extents(
    kernel: KernelContext, maps: list[AffineMap], tensors: list[Tensor | None]
) -> tuple[Extent, ...]:
    """The size of each loop of a structured op, from the operand dims that it alone indexes."""
    found: dict[int, Extent] = {}
    for indexing, tensor in zip(maps, tensors, strict=True):
        if tensor is None:
            continue
        for expression, extent in zip(indexing.results, tensor.extents, strict=True):
            if isinstance(expression, AffineDimExpr):
                _verify_same(kernel, found.setdefault(expression.position, extent), extent)
    loops = maps[0].num_dims if maps else 0
    missing = [loop for loop in range(loops) if loop not in found]
    if missing:
        raise kernel.error(f"no operand tells the size of loop d{missing[0]}")
    return tuple(found[loop] for loop in range(loops))


def _verify_same(kernel: KernelContext, one: Extent, other: Extent) -> None:
    """Sizes that the types leave open may turn out to differ."""
    if one.known and other.known and one.upper != other.upper:
        raise kernel.error(f"operands of {one.upper} and {other.upper} elements in one dim")


def structured_operands(
    kernel: KernelContext, operation: LinalgStructuredOperation
) -> tuple[list[AffineMap], list[Tensor | None]]:
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
    """What the body of a structured op works on, an argument for each of these operands."""
    kernel = chain.kernel
    arguments = []
    for value, indexing, tensor in zip(operands, maps, tensors, strict=True):
        if tensor is None:
            arguments.append(chain.scalar(kernel.scalar(value), kernel.element_type(value.type)))
            continue
        strides, start = strides_under(kernel, indexing, tensor)
        arguments.append(chain.tensor(moved(tensor, start), strides))
    return arguments


def lower_parallel(kernel: KernelContext, operation: LinalgStructuredOperation) -> None:
    """A structured op all of whose loops are parallel."""
    maps, tensors = structured_operands(kernel, operation)
    extents = iteration_extents(kernel, maps, tensors)
    chain = ChainBuilder(kernel)
    arguments = body_arguments(chain, operation.operands, maps, tensors)
    yielded = chain.body(operation.body.block, arguments)
    outputs = []
    inputs = len(operation.inputs)
    for handle, result, indexing in zip(yielded, operation.res, maps[inputs:], strict=True):
        assert isinstance(result.type, TensorType)
        before = kernel.tensor(operation.outputs[result.index])
        output = kernel.new(kernel.element_type(result.type), before.extents, result)
        strides, start = strides_under(kernel, indexing, output)
        if start or sorted(strides) != sorted(output.strides):
            # Some elements may keep what they had.
            kernel.write(before, output)
        outputs.append((handle, with_strides(moved(output, start), strides)))
        kernel.tensors[result] = output
    kernel.add(chain.finish(extents, outputs))


def with_strides(tensor: Tensor, strides: tuple[int, ...]) -> TensorView:
    assert isinstance(tensor, TensorView)
    return replace(tensor, strides=strides)


def lower_generate(kernel: KernelContext, operation: GenerateOp) -> None:
    """Every element from its coordinates."""
    assert isinstance(operation.result.type, TensorType)
    sizes = kernel.mixed(operation.result.type.get_shape(), operation.dynamic_extents)
    extents = tuple(map(kernel.extent, sizes))
    chain = ChainBuilder(kernel)
    indices = [chain.index(dim) for dim in range(len(extents))]
    (value,) = chain.body(operation.body.block, list(indices))
    output = kernel.new(kernel.element_type(operation.result.type), extents, operation.result)
    kernel.add(chain.finish(extents, [(value, output)]))
    kernel.tensors[operation.result] = output

"""Lowers `linalg.reduce` and structured ops with reduction loops."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import ReduceOp
from xdsl.ir import Block, SSAValue

from torch_spyre.backend.lowering.chains import ChainBuilder
from torch_spyre.backend.lowering.combiners import (
    Combiner,
    ReducedResult,
    combiner_of,
    dependent_values,
    reduced_results,
)
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import (
    body_arguments,
    iteration_extents,
    map_strides,
    structured_operands,
    with_offset,
    with_strides,
)
from torch_spyre.backend.lowering.nodes import ChainInput, Elementwise, IndexInput, Reduction
from torch_spyre.backend.lowering.values import Extent, Splat, Tensor, TensorView, Undefined
from torch_spyre.backend.lowering.vector_ops import is_identity, reduction_op
from torch_spyre.backend.program.instructions import ElementType


def lower_reduce(kernel: KernelContext, operation: ReduceOp) -> None:
    source, init = kernel.tensor(operation.input), kernel.tensor(operation.init)
    reduced = tuple(sorted(operation.dimensions.get_values()))
    extents = source.extents
    parallel_dims = [dim for dim in range(len(extents)) if dim not in reduced]
    chain = ChainBuilder(kernel)
    strides = source.strides if isinstance(source, TensorView) else ()
    value = chain.tensor(source, strides)
    output = kernel.allocate(value.type, init.extents, operation.result[0])

    def in_iteration_space(tensor: TensorView) -> TensorView:
        by_dim = dict(zip(parallel_dims, tensor.strides, strict=True))
        return with_strides(tensor, tuple(by_dim.get(dim, 0) for dim in range(len(extents))))

    block = operation.region.block
    element, accumulator = block.args
    combine = _combine_instruction(block, element, accumulator)
    initial = _initial_tensors(kernel, [init], combine, reduced, extents)
    values, outputs = [value], [output]
    combiner = Combiner()
    if not combine:
        terminator = block.last_op
        assert terminator is not None
        combiner = combiner_of(kernel, block, [accumulator], [element], terminator.operands)
    for scalar in combiner.scalars:
        # The combiner's scalars are reduced to themselves; their outputs are not read.
        values.append(chain.scalar(scalar.register, scalar.type))
        outputs.append(kernel.allocate(scalar.type, init.extents, None))
        if initial:
            initial.append(kernel.to_buffer(Splat(scalar.register, scalar.type, init.extents)))
    inputs, steps, numbers = chain.numbered(values)
    kernel.add(
        Reduction(
            kernel.location,
            Elementwise(kernel.location, extents, inputs, steps, chain.lookups, []),
            reduced,
            tuple(numbers),
            combine,
            combiner.steps,
            combiner.results,
            tuple(in_iteration_space(tensor) for tensor in initial),
            tuple(in_iteration_space(tensor) for tensor in outputs),
        )
    )
    kernel.tensors[operation.result[0]] = output


def _combine_instruction(block: Block, element: SSAValue, accumulator: SSAValue) -> str:
    """Return the instruction of a body that is one op of element and accumulator; else ""."""
    operations = list(block.ops)
    if len(operations) != 2:
        return ""
    combining, terminator = operations
    if list(terminator.operands) != list(combining.results):
        return ""
    if set(combining.operands) != {element, accumulator}:
        return ""
    return reduction_op(combining) or ""


def _initial_tensors(
    kernel: KernelContext,
    inits: Sequence[Tensor],
    combine: str,
    reduced: tuple[int, ...],
    extents: tuple[Extent, ...],
) -> list[TensorView]:
    """Return the initial values of the accumulators; none if they are neutral elements."""
    is_nonempty = all(extents[dim].is_static and extents[dim].upper > 0 for dim in reduced)
    if is_nonempty and all(_is_neutral(kernel, init, combine) for init in inits):
        return []
    return [kernel.to_buffer(init) for init in inits]


def _is_neutral(kernel: KernelContext, init: Tensor, combine: str) -> bool:
    match init:
        case Undefined():
            return True
        case Splat() if combine:
            bits = kernel.constant_bits(init.register)
            return bits is not None and is_identity(combine, bits)
    return False


def is_reduction(operation: LinalgStructuredOperation) -> bool:
    return any(
        iterator.data is not IteratorType.PARALLEL for iterator in operation.get_iterator_types()
    )


def lower_structured_reduction(kernel: KernelContext, operation: LinalgStructuredOperation) -> None:
    """Lower a structured op with reduction loops; its body reduces into its outs arguments."""
    block = operation.body.block
    accumulators = block.args[len(operation.inputs) :]
    results = reduced_results(kernel, block, accumulators)
    structured_reduction = _StructuredReduction(kernel, operation, accumulators)
    for result in results:
        if result.combine:
            structured_reduction.add([result], result.combine, Combiner())
    joint = [result for result in results if not result.combine]
    if joint:
        combiner = combiner_of(
            kernel,
            block,
            [result.accumulator for result in joint],
            [result.element for result in joint],
            [result.result for result in joint],
        )
        if any(scalar.type is not ElementType.I1 for scalar in combiner.scalars):
            # The engine also combines two accumulators. Which one a select returns must then
            # follow from the compared values alone, not from the elements combined so far.
            raise kernel.error(
                "values from outside the body select between an element and the outs arguments; "
                "use them in the value that is reduced instead"
            )
        structured_reduction.add(joint, "", combiner)


class _StructuredReduction:
    """Adds the reductions that a structured op is lowered to; all have its iteration space."""

    def __init__(
        self,
        kernel: KernelContext,
        operation: LinalgStructuredOperation,
        accumulators: Sequence[SSAValue],
    ) -> None:
        self.kernel, self.operation = kernel, operation
        self.maps, self.tensors = structured_operands(kernel, operation)
        self.extents = iteration_extents(kernel, self.maps, self.tensors)
        self.reduced = tuple(
            loop
            for loop, iterator in enumerate(operation.get_iterator_types())
            if iterator.data is not IteratorType.PARALLEL
        )
        self.dependent = dependent_values(operation.body.block, accumulators)

    def add(self, results: Sequence[ReducedResult], combine: str, combiner: Combiner) -> None:
        """Add one reduction that computes these results."""
        kernel = self.kernel
        first = results[0].position
        chain = self._element_chain()
        values = [chain.value(result.element) for result in results]
        outputs = [self._output(result.position) for result in results]
        inits = [self._init(result.position) for result in results]
        initial = [
            self._in_iteration_space(result.position, tensor)
            for result, tensor in zip(
                results,
                _initial_tensors(kernel, inits, combine, self.reduced, self.extents),
                strict=False,
            )
        ]
        for scalar in combiner.scalars:
            # The combiner's scalars are reduced to themselves; their outputs are not read.
            values.append(chain.scalar(scalar.register, scalar.type))
            unread = kernel.allocate(scalar.type, inits[0].extents, None)
            outputs.append(self._in_iteration_space(first, unread))
            if initial:
                splat = Splat(scalar.register, scalar.type, inits[0].extents)
                initial.append(self._in_iteration_space(first, kernel.to_buffer(splat)))
        inputs, steps, numbers = chain.numbered(values)
        reduction = Reduction(
            kernel.location,
            Elementwise(kernel.location, self.extents, inputs, steps, chain.lookups, []),
            self.reduced,
            tuple(numbers),
            combine,
            combiner.steps,
            combiner.results,
            tuple(initial),
            tuple(outputs),
        )
        if any(result.is_order_dependent for result in results):
            reduction = _in_element_order(kernel, reduction)
        kernel.add(reduction)

    def _element_chain(self) -> ChainBuilder:
        """Return a chain with the ops of the body that do not depend on accumulators."""
        chain = ChainBuilder(self.kernel)
        block = self.operation.body.block
        inputs = len(self.operation.inputs)
        arguments = body_arguments(
            chain, self.operation.inputs, self.maps[:inputs], self.tensors[:inputs]
        )
        chain.values.update(zip(block.args, arguments, strict=False))
        chain.operations(
            operation
            for operation in block.ops
            if operation is not block.last_op and not self.dependent & set(operation.operands)
        )
        return chain

    def _init(self, position: int) -> Tensor:
        init = self.tensors[len(self.operation.inputs) + position]
        assert init is not None
        return init

    def _output(self, position: int) -> TensorView:
        result = self.operation.res[position]
        assert isinstance(result.type, TensorType)
        extents = self._init(position).extents
        output = self.kernel.allocate(self.kernel.element_type(result.type), extents, result)
        self.kernel.tensors[result] = output
        return self._in_iteration_space(position, output)

    def _in_iteration_space(self, position: int, tensor: TensorView) -> TensorView:
        """Return a tensor with the shape of a result, with a stride for each loop."""
        indexing = self.maps[len(self.operation.inputs) + position]
        strides, start = map_strides(self.kernel, indexing, tensor)
        return with_strides(with_offset(tensor, start), strides)


def _in_element_order(kernel: KernelContext, reduction: Reduction) -> Reduction:
    """Return the reduction with one accumulator per output, which combines elements in order.

    The engine reduces in this way if the innermost loop is not a reduction loop.
    """
    rank = len(reduction.chain.extents)
    parallel_loops = [loop for loop in range(rank) if loop not in reduction.reduced]
    order = [*reduction.reduced, *parallel_loops]

    def ordered(tensor: TensorView) -> TensorView:
        return with_strides(tensor, (*(tensor.strides[loop] for loop in order), 0))

    def ordered_input(entry: ChainInput) -> ChainInput:
        match entry:
            case TensorView():
                return ordered(entry)
            case IndexInput():
                return IndexInput(order.index(entry.dimension))
        return entry

    chain = reduction.chain
    extents = (*(chain.extents[loop] for loop in order), kernel.static_extent(1))
    return replace(
        reduction,
        chain=replace(
            chain, extents=extents, inputs=[ordered_input(entry) for entry in chain.inputs]
        ),
        reduced=tuple(range(len(reduction.reduced))),
        initial=tuple(map(ordered, reduction.initial)),
        outputs=tuple(map(ordered, reduction.outputs)),
    )

"""`linalg.reduce`, and structured ops with loops that reduce."""

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
    FoldedResult,
    combiner_of,
    depending_on,
    folded_results,
)
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import (
    body_arguments,
    iteration_extents,
    moved,
    strides_under,
    structured_operands,
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
    kept = [dim for dim in range(len(extents)) if dim not in reduced]
    chain = ChainBuilder(kernel)
    strides = source.strides if isinstance(source, TensorView) else ()
    value = chain.tensor(source, strides)
    output = kernel.new(value.type, init.extents, operation.result[0])

    def spread(tensor: TensorView) -> TensorView:
        by_dim = dict(zip(kept, tensor.strides, strict=True))
        return with_strides(tensor, tuple(by_dim.get(dim, 0) for dim in range(len(extents))))

    block = operation.region.block
    element, accumulator = block.args
    combine = _named_combine(block, element, accumulator)
    initial = _initial(kernel, [init], combine, reduced, extents)
    folded, outputs = [value], [output]
    combiner = Combiner()
    if not combine:
        terminator = block.last_op
        assert terminator is not None
        combiner = combiner_of(kernel, block, [accumulator], [element], terminator.operands)
    for scalar in combiner.scalars:
        # A value that folding does not change; nobody reads where it ends up.
        folded.append(chain.scalar(scalar.register, scalar.type))
        outputs.append(kernel.new(scalar.type, init.extents, None))
        if initial:
            initial.append(kernel.in_memory(Splat(scalar.register, scalar.type, init.extents)))
    inputs, steps, numbers = chain.numbered(folded)
    kernel.add(
        Reduction(
            kernel.location,
            Elementwise(kernel.location, extents, inputs, steps, chain.lookups, []),
            reduced,
            tuple(numbers),
            combine,
            combiner.steps,
            combiner.results,
            tuple(spread(found) for found in initial),
            tuple(spread(found) for found in outputs),
        )
    )
    kernel.tensors[operation.result[0]] = output


def _named_combine(block: Block, element: SSAValue, accumulator: SSAValue) -> str:
    """The combining instruction of a region that is one op of the element and the accumulator."""
    operations = list(block.ops)
    if len(operations) != 2:
        return ""
    combining, terminator = operations
    if list(terminator.operands) != list(combining.results):
        return ""
    if set(combining.operands) != {element, accumulator}:
        return ""
    return reduction_op(combining) or ""


def _initial(
    kernel: KernelContext,
    inits: Sequence[Tensor],
    combine: str,
    reduced: tuple[int, ...],
    extents: tuple[Extent, ...],
) -> list[TensorView]:
    """The tensors to fold in once more; none where that would change nothing."""
    something = all(extents[dim].known and extents[dim].upper > 0 for dim in reduced)
    if something and all(_changes_nothing(kernel, init, combine) for init in inits):
        return []
    return [kernel.in_memory(init) for init in inits]


def _changes_nothing(kernel: KernelContext, init: Tensor, combine: str) -> bool:
    match init:
        case Undefined():
            return True
        case Splat() if combine:
            bits = kernel.number(init.register)
            return bits is not None and is_identity(combine, bits)
    return False


def is_reduction(operation: LinalgStructuredOperation) -> bool:
    return any(
        iterator.data is not IteratorType.PARALLEL for iterator in operation.get_iterator_types()
    )


def lower_reducing(kernel: KernelContext, operation: LinalgStructuredOperation) -> None:
    """A structured op with reduction loops, whose body folds values into its outs arguments."""
    block = operation.body.block
    accumulators = block.args[len(operation.inputs) :]
    results = folded_results(kernel, block, accumulators)
    folding = _Folding(kernel, operation, accumulators)
    for found in results:
        if found.combine:
            folding.add([found], found.combine, Combiner())
    joint = [found for found in results if not found.combine]
    if joint:
        combiner = combiner_of(
            kernel,
            block,
            [found.accumulator for found in joint],
            [found.element for found in joint],
            [found.result for found in joint],
        )
        if any(scalar.type is not ElementType.I1 for scalar in combiner.scalars):
            # Whether an accumulator wins would depend on more than what it is compared with, and
            # so on which elements it has met.
            raise kernel.error(
                "numbers from outside decide between an element and the outs arguments; using them "
                "in the value that is folded is the way out"
            )
        folding.add(joint, "", combiner)


class _Folding:
    """The reductions that a structured op becomes: they share its loops and its elements."""

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
        self.dependent = depending_on(operation.body.block, accumulators)

    def add(self, results: Sequence[FoldedResult], combine: str, combiner: Combiner) -> None:
        kernel = self.kernel
        first = results[0].position
        chain = self._elements()
        folded = [chain.value(found.element) for found in results]
        outputs = [self._output(found.position) for found in results]
        inits = [self._init(found.position) for found in results]
        initial = [
            self._in_loops(found.position, each)
            for found, each in zip(
                results,
                _initial(kernel, inits, combine, self.reduced, self.extents),
                strict=False,
            )
        ]
        for scalar in combiner.scalars:
            # A value that folding does not change; nobody reads where it ends up.
            folded.append(chain.scalar(scalar.register, scalar.type))
            unread = kernel.new(scalar.type, inits[0].extents, None)
            outputs.append(self._in_loops(first, unread))
            if initial:
                splat = Splat(scalar.register, scalar.type, inits[0].extents)
                initial.append(self._in_loops(first, kernel.in_memory(splat)))
        inputs, steps, numbers = chain.numbered(folded)
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
        if any(found.follows_order for found in results):
            reduction = _one_after_the_other(kernel, reduction)
        kernel.add(reduction)

    def _elements(self) -> ChainBuilder:
        """A chain of all that the body computes from an element alone."""
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
        output = self.kernel.new(self.kernel.element_type(result.type), extents, result)
        self.kernel.tensors[result] = output
        return self._in_loops(position, output)

    def _in_loops(self, position: int, tensor: TensorView) -> TensorView:
        """A tensor with the shape of a result, with a stride for each loop."""
        indexing = self.maps[len(self.operation.inputs) + position]
        strides, start = strides_under(self.kernel, indexing, tensor)
        return with_strides(moved(tensor, start), strides)


def _one_after_the_other(kernel: KernelContext, reduction: Reduction) -> Reduction:
    """The same with one accumulator for each output, that takes its elements in order.

    The engine does so where the innermost loop is not reduced.
    """
    rank = len(reduction.chain.extents)
    kept = [loop for loop in range(rank) if loop not in reduction.reduced]
    order = [*reduction.reduced, *kept]

    def ordered(tensor: TensorView) -> TensorView:
        return with_strides(tensor, (*(tensor.strides[loop] for loop in order), 0))

    def input_in_order(found: ChainInput) -> ChainInput:
        match found:
            case TensorView():
                return ordered(found)
            case IndexInput():
                return IndexInput(order.index(found.dimension))
        return found

    chain = reduction.chain
    extents = (*(chain.extents[loop] for loop in order), kernel.static_extent(1))
    return replace(
        reduction,
        chain=replace(
            chain, extents=extents, inputs=[input_in_order(each) for each in chain.inputs]
        ),
        reduced=tuple(range(len(reduction.reduced))),
        initial=tuple(map(ordered, reduction.initial)),
        outputs=tuple(map(ordered, reduction.outputs)),
    )

"""`linalg.reduce`, and structured ops with loops that reduce."""

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import ReduceOp
from xdsl.ir import Block, Operation, SSAValue

from torch_spyre.backend.lowering.chains import ChainBuilder, Handle
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.elementwise import (
    body_arguments,
    iteration_extents,
    moved,
    strides_under,
    structured_operands,
    with_strides,
)
from torch_spyre.backend.lowering.nodes import Elementwise, IndexInput, Reduction, ScalarInput
from torch_spyre.backend.lowering.values import Extent, Splat, Tensor, TensorView, Undefined
from torch_spyre.backend.lowering.vector_ops import COMBINES, is_identity
from torch_spyre.backend.program.instructions import ChainStep

# As in the engine: what one reduction can fold side by side.
MOST_FOLDED = 8


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
    initial = _initial(kernel, init, combine, reduced, extents)
    folded, outputs = [value], [output]
    combiner = _Combiner()
    if not combine:
        combiner = _combiner(kernel, block, accumulator, element, value)
    for scalar in combiner.scalars:
        # A value that folding does not change; nobody reads where it ends up.
        folded.append(chain.scalar(scalar.register, scalar.type))
        outputs.append(kernel.new(scalar.type, init.extents, None))
        if initial:
            initial.append(kernel.in_memory(Splat(scalar.register, scalar.type, init.extents)))
    inputs, steps, numbers = chain.numbered(folded)
    kernel.add(
        Reduction(
            kernel.place,
            Elementwise(kernel.place, extents, inputs, steps, chain.lookups, []),
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
    if type(combining) not in COMBINES or list(terminator.operands) != list(combining.results):
        return ""
    if set(combining.operands) != {element, accumulator}:
        return ""
    return COMBINES[type(combining)]


def _initial(
    kernel: KernelContext,
    init: Tensor,
    combine: str,
    reduced: tuple[int, ...],
    extents: tuple[Extent, ...],
) -> list[TensorView]:
    """The tensor to fold in once more; none where that would change nothing."""
    something = all(extents[dim].known and extents[dim].upper > 0 for dim in reduced)
    if isinstance(init, Splat) and combine and something:
        bits = kernel.number(init.register)
        if bits is not None and is_identity(combine, bits, init.type):
            return []
    if isinstance(init, Undefined) and something:
        return []
    return [kernel.in_memory(init)]


@dataclass(frozen=True)
class _Combiner:
    """Steps on accumulators (values 0..n-1) and next elements (n..2n-1).

    Value 0 is what is reduced; the others are the constants and outer scalars that the steps use.
    """

    steps: tuple[ChainStep, ...] = ()
    results: tuple[int, ...] = ()
    scalars: tuple[ScalarInput, ...] = ()


def _combiner(
    kernel: KernelContext, block: Block, accumulator: SSAValue, element: SSAValue, value: Handle
) -> _Combiner:
    builder = ChainBuilder(kernel)
    handles = {accumulator: Handle(True, 0, value.type), element: Handle(True, 1, value.type)}
    # The engine supplies the first two values: these stand for them, and are never looked at.
    builder.inputs = [IndexInput(-2), IndexInput(-1)]
    yielded = builder.body(block, [handles[argument] for argument in block.args])
    inputs, steps, results = builder.numbered(yielded, kept_inputs=2)
    if builder.lookups:
        raise kernel.error("a combiner cannot read tensors")
    scalars = tuple(found for found in inputs if isinstance(found, ScalarInput))
    if 1 + len(scalars) > MOST_FOLDED:
        raise kernel.error(
            f"a combiner with {len(scalars)} constants and outer values; the card has room for "
            f"{MOST_FOLDED - 1}"
        )
    accumulators = 1 + len(scalars)
    numbers = [0, accumulators, *range(1, accumulators)]
    numbers += range(2 * accumulators, 2 * accumulators + len(steps))
    return _Combiner(
        tuple(
            replace(step, inputs=tuple(numbers[number] for number in step.inputs)) for step in steps
        ),
        (*(numbers[number] for number in results), *range(1, accumulators)),
        scalars,
    )


def is_reduction(operation: LinalgStructuredOperation) -> bool:
    return any(
        iterator.data is not IteratorType.PARALLEL for iterator in operation.get_iterator_types()
    )


def lower_reducing(kernel: KernelContext, operation: LinalgStructuredOperation) -> None:
    """A structured op with reduction loops, whose body ends in one op that folds a value in."""
    if len(operation.outputs) != 1:
        raise kernel.error("a reduction with several results")
    maps, tensors = structured_operands(kernel, operation)
    extents = iteration_extents(kernel, maps, tensors)
    reduced = tuple(
        loop
        for loop, iterator in enumerate(operation.get_iterator_types())
        if iterator.data is not IteratorType.PARALLEL
    )
    block = operation.body.block
    accumulator = block.args[-1]
    combining = _folding_op(kernel, block, accumulator)
    chain = ChainBuilder(kernel)
    arguments = body_arguments(chain, operation, maps, tensors)
    folded = next(value for value in combining.operands if value is not accumulator)
    chain.region(block, arguments, stop=combining)
    value_handle = chain.value(folded)
    init = tensors[-1]
    assert init is not None
    result = operation.res[0]
    assert isinstance(result.type, TensorType)
    output = kernel.new(kernel.element_type(result.type), init.extents, result)
    combine = COMBINES[type(combining)]
    initial = []
    for found in _initial(kernel, init, combine, reduced, extents):
        strides, start = strides_under(kernel, maps[-1], found)
        initial.append(with_strides(moved(found, start), strides))
    strides, start = strides_under(kernel, maps[-1], output)
    inputs, steps, numbers = chain.numbered([value_handle])
    kernel.add(
        Reduction(
            kernel.place,
            Elementwise(kernel.place, extents, inputs, steps, chain.lookups, []),
            reduced,
            tuple(numbers),
            combine,
            (),
            (),
            tuple(initial),
            (with_strides(moved(output, start), strides),),
        )
    )
    kernel.tensors[result] = output


def _folding_op(kernel: KernelContext, block: Block, accumulator: SSAValue) -> Operation:
    terminator = block.last_op
    assert terminator is not None
    yielded = terminator.operands[0]
    combining = yielded.owner
    if (
        not isinstance(combining, Operation)
        or type(combining) not in COMBINES
        or accumulator not in combining.operands
        or accumulator.uses.get_length() != 1
    ):
        raise kernel.error(
            "the body of a reduction ends in one op that adds, multiplies, or takes the maximum "
            "or minimum of a value and the outs argument"
        )
    return combining

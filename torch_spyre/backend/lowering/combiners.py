"""Analyses reduction bodies: the values that are reduced, and the steps that combine them.

The engine reduces in an unspecified order and also combines accumulators with each other. A body
can express that only if each result combines its accumulator with one value of the element: the
value can then be replaced by another accumulator.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from torch_spyre.backend.lowering.chains import ChainBuilder, Handle
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import IndexInput, ScalarInput
from torch_spyre.backend.lowering.vector_ops import reduction_op
from torch_spyre.backend.program.instructions import ChainStep
from torch_spyre.ktir.dialects.arith import SelectOp

# The number of values that one reduction of the engine can reduce together.
MAX_REDUCED_VALUES = 8

_EXTREMES = (
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.MaxnumfOp,
    arith.MinnumfOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MaxUIOp,
    arith.MinUIOp,
)


@dataclass(frozen=True)
class Combiner:
    """Steps that combine accumulators (values 0..n-1) with the next elements (n..2n-1).

    The first values are those that are reduced; then come the constants and outer scalars that the
    steps use.
    """

    steps: tuple[ChainStep, ...] = ()
    results: tuple[int, ...] = ()
    scalars: tuple[ScalarInput, ...] = ()


def combiner_of(
    kernel: KernelContext,
    block: Block,
    accumulators: Sequence[SSAValue],
    elements: Sequence[SSAValue],
    results: Sequence[SSAValue],
) -> Combiner:
    """Return the combiner of these results; each accumulator has one element and one result."""
    arguments = [*accumulators, *elements]
    builder = ChainBuilder(kernel)
    # The engine supplies these values: the inputs are placeholders.
    builder.inputs = [IndexInput(position - len(arguments)) for position in range(len(arguments))]
    for position, value in enumerate(arguments):
        builder.values[value] = Handle(True, position, kernel.element_type(value.type))
    builder.operations(_ops_between(kernel, block, arguments, results))
    yielded = [builder.value(result) for result in results]
    inputs, steps, numbered = builder.numbered(yielded, fixed_inputs=len(arguments))
    if builder.lookups:
        raise kernel.error("a combiner cannot read tensors")
    scalars = tuple(entry for entry in inputs if isinstance(entry, ScalarInput))
    num_reduced, num_values = len(accumulators), len(accumulators) + len(scalars)
    if num_values > MAX_REDUCED_VALUES:
        raise kernel.error(
            f"a combiner of {num_reduced} values with {len(scalars)} constants and outer values; "
            f"the card supports {MAX_REDUCED_VALUES} in all"
        )
    numbers = [
        *range(num_reduced),
        *range(num_values, num_values + num_reduced),
        *range(num_reduced, num_values),
    ]
    numbers += range(2 * num_values, 2 * num_values + len(steps))
    return Combiner(
        tuple(
            replace(step, inputs=tuple(numbers[number] for number in step.inputs)) for step in steps
        ),
        (*(numbers[number] for number in numbered), *range(num_reduced, num_values)),
        scalars,
    )


def _ops_between(
    kernel: KernelContext, block: Block, arguments: Sequence[SSAValue], results: Sequence[SSAValue]
) -> list[Operation]:
    """Return the ops that compute the results from the arguments, in the order of the block."""
    needed: set[Operation] = set()
    pending = [result for result in results if result not in arguments]
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(value, BlockArgument) and owner is block:
            raise kernel.error(
                "a result depends on a value of the element that it does not reduce; compute it "
                "from the accumulators and the reduced values only"
            )
        if not isinstance(owner, Operation) or owner.parent_block() is not block:
            continue
        if owner.name == "linalg.index":
            raise kernel.error("a result depends on linalg.index, which it does not reduce")
        if owner not in needed:
            needed.add(owner)
            pending.extend(operand for operand in owner.operands if operand not in arguments)
    return [operation for operation in block.ops if operation in needed]


@dataclass(frozen=True)
class ReducedResult:
    """A result of a reduction body, its accumulator, and the value combined with that."""

    position: int
    accumulator: SSAValue
    element: SSAValue
    result: SSAValue
    # The instruction that reduces this result; "" if it must be reduced together with others.
    combine: str
    # Whether the order of the elements decides which one is selected.
    is_order_dependent: bool


def reduced_results(
    kernel: KernelContext, block: Block, accumulators: Sequence[SSAValue]
) -> list[ReducedResult]:
    """Return how each result of a reduction body is reduced."""
    terminator = block.last_op
    assert terminator is not None
    dependent = dependent_values(block, accumulators)
    results = [
        _reduced_result(kernel, position, accumulator, result, dependent)
        for position, (accumulator, result) in enumerate(
            zip(accumulators, terminator.operands, strict=True)
        )
    ]
    joint = [result.element for result in results if not result.combine]
    if len(set(joint)) != len(joint):
        raise kernel.error(
            "two results that depend on each other reduce the same value, which the card does not "
            "support; use one op for each"
        )
    return results


def dependent_values(block: Block, accumulators: Iterable[SSAValue]) -> set[SSAValue]:
    """Return the accumulators and all values that are computed from them."""
    dependent = set(accumulators)
    for operation in block.ops:
        if dependent & set(operation.operands):
            dependent |= set(operation.results)
    return dependent


def _reduced_result(
    kernel: KernelContext,
    position: int,
    accumulator: SSAValue,
    result: SSAValue,
    dependent: set[SSAValue],
) -> ReducedResult:
    operation = result.owner
    is_separate = accumulator.uses.get_length() == 1 and result.uses.get_length() == 1
    combined: Sequence[SSAValue] = ()
    match operation:
        case SelectOp():
            combined = operation.operands[1:]
        case Operation() if isinstance(operation, _EXTREMES) or (
            is_separate and reduction_op(operation) is not None
        ):
            combined = operation.operands
    elements = [value for value in combined if value is not accumulator]
    if accumulator not in combined or len(elements) != 1 or elements[0] in dependent:
        raise kernel.error(
            "each result of a reduction's body must combine its outs argument with a value of the "
            "element in one op: an addition, multiplication, maximum, minimum or select"
        )
    assert isinstance(operation, Operation), "only an op has operands"
    is_select = isinstance(operation, SelectOp)
    return ReducedResult(
        position,
        accumulator,
        elements[0],
        result,
        (reduction_op(operation) or "") if is_separate else "",
        is_order_dependent=is_select and is_separate,
    )

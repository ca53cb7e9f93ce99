"""Regions that fold elements into accumulators: what they fold, and the steps that do it.

The engine folds in an order of its own, and folds accumulators into each other. A region can say
how that goes only if each result takes an accumulator together with one value of the element: the
value then stands for another accumulator.
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

# As in the engine: what one reduction can fold side by side.
MOST_FOLDED = 8

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
    """Steps on accumulators (values 0..n-1) and next elements (n..2n-1).

    The first values are what is reduced; the others are the constants and outer scalars that the
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
    """`elements` and `results` belong to the accumulators, one to each."""
    given = [*accumulators, *elements]
    builder = ChainBuilder(kernel)
    # The engine supplies these values: the inputs stand for them, and are never looked at.
    builder.inputs = [IndexInput(position - len(given)) for position in range(len(given))]
    for position, value in enumerate(given):
        builder.values[value] = Handle(True, position, kernel.element_type(value.type))
    builder.operations(_between(kernel, block, given, results))
    yielded = [builder.value(result) for result in results]
    inputs, steps, numbered = builder.numbered(yielded, fixed_inputs=len(given))
    if builder.lookups:
        raise kernel.error("a combiner cannot read tensors")
    scalars = tuple(found for found in inputs if isinstance(found, ScalarInput))
    folded, total = len(accumulators), len(accumulators) + len(scalars)
    if total > MOST_FOLDED:
        raise kernel.error(
            f"a combiner of {folded} values with {len(scalars)} constants and outer values; the "
            f"card has room for {MOST_FOLDED} in all"
        )
    numbers = [*range(folded), *range(total, total + folded), *range(folded, total)]
    numbers += range(2 * total, 2 * total + len(steps))
    return Combiner(
        tuple(
            replace(step, inputs=tuple(numbers[number] for number in step.inputs)) for step in steps
        ),
        (*(numbers[number] for number in numbered), *range(folded, total)),
        scalars,
    )


def _between(
    kernel: KernelContext, block: Block, given: Sequence[SSAValue], results: Sequence[SSAValue]
) -> list[Operation]:
    """The ops that lead from the given values to the results."""
    needed: set[Operation] = set()
    pending = [result for result in results if result not in given]
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(value, BlockArgument) and owner is block:
            raise kernel.error(
                "a result depends on more of an element than what it folds; computing that from "
                "the accumulators and the folded values is the way out"
            )
        if not isinstance(owner, Operation) or owner.parent_block() is not block:
            continue
        if owner.name == "linalg.index":
            raise kernel.error("a result depends on linalg.index, which it does not fold")
        if owner not in needed:
            needed.add(owner)
            pending.extend(operand for operand in owner.operands if operand not in given)
    return [operation for operation in block.ops if operation in needed]


@dataclass(frozen=True)
class FoldedResult:
    """A result of a region, its accumulator, and the value of an element that joins it."""

    position: int
    accumulator: SSAValue
    element: SSAValue
    result: SSAValue
    # The instruction that folds it all alone; "" if what happens to it hangs on other values.
    combine: str
    # Nothing but the order of elements decides which of two comes out.
    follows_order: bool


def folded_results(
    kernel: KernelContext, block: Block, accumulators: Sequence[SSAValue]
) -> list[FoldedResult]:
    terminator = block.last_op
    assert terminator is not None
    dependent = depending_on(block, accumulators)
    found = [
        _folded(kernel, position, accumulator, result, dependent)
        for position, (accumulator, result) in enumerate(
            zip(accumulators, terminator.operands, strict=True)
        )
    ]
    joint = [each.element for each in found if not each.combine]
    if len(set(joint)) != len(joint):
        raise kernel.error(
            "two results that depend on each other fold the same value: the card cannot tell them "
            "apart; two ops, one for each, are the way out"
        )
    return found


def depending_on(block: Block, accumulators: Iterable[SSAValue]) -> set[SSAValue]:
    found = set(accumulators)
    for operation in block.ops:
        if found & set(operation.operands):
            found |= set(operation.results)
    return found


def _folded(
    kernel: KernelContext,
    position: int,
    accumulator: SSAValue,
    result: SSAValue,
    dependent: set[SSAValue],
) -> FoldedResult:
    operation = result.owner
    alone = accumulator.uses.get_length() == 1 and result.uses.get_length() == 1
    choices: Sequence[SSAValue] = ()
    match operation:
        case SelectOp():
            choices = operation.operands[1:]
        case Operation() if isinstance(operation, _EXTREMES) or (
            alone and reduction_op(operation) is not None
        ):
            choices = operation.operands
    others = [value for value in choices if value is not accumulator]
    if accumulator not in choices or len(others) != 1 or others[0] in dependent:
        raise kernel.error(
            "each result of a reduction's body comes from one op on its outs argument and a value "
            "of the element: one that adds, multiplies, takes the maximum or minimum, or selects"
        )
    assert isinstance(operation, Operation), "only an op has choices"
    is_select = isinstance(operation, SelectOp)
    return FoldedResult(
        position,
        accumulator,
        others[0],
        result,
        (reduction_op(operation) or "") if alone else "",
        follows_order=is_select and alone,
    )

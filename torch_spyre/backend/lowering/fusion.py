"""Joins elementwise nodes into chains, so that values on the way never reach the scratchpad.

Rounding does not change: each step of a chain rounds as the op alone would. A chain stays open
while what follows does not need its results; what does not depend on it moves before it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from torch_spyre.backend.lowering.nodes import (
    ChainInput,
    Elementwise,
    For,
    If,
    Node,
    Output,
    Plain,
    Reduction,
)
from torch_spyre.backend.lowering.values import Buffer, TensorView
from torch_spyre.backend.program.instructions import ChainStep, Move

# A chain's values must fit the host's fastest cache, whatever the kernel.
_MOST_VALUES = 64


def fuse(nodes: list[Node]) -> list[Node]:
    readers: Counter[Buffer] = Counter()
    _count_readers(nodes, readers)
    return _Fusion(readers).region(nodes)


def _count_readers(nodes: Iterable[Node], readers: Counter[Buffer]) -> None:
    for node in nodes:
        readers.update(set(node.reads()))
        match node:
            case For():
                readers.update(node.carried)
                _count_readers(node.body, readers)
            case If():
                readers.update(node.results)
                _count_readers(node.then, readers)
                _count_readers(node.otherwise, readers)


class _Fusion:
    def __init__(self, readers: Counter[Buffer]) -> None:
        self.readers = readers

    def region(self, nodes: list[Node]) -> list[Node]:
        done: list[Node] = []
        chain: Elementwise | None = None
        for node in nodes:
            match node:
                case For():
                    node.body = self.region(node.body)
                case If():
                    node.then = self.region(node.then)
                    node.otherwise = self.region(node.otherwise)
                case Elementwise() if chain is not None and _can_join(chain, node):
                    chain = self._joined(chain, node)
                    continue
                case Elementwise():
                    self._close(chain, done)
                    chain = node
                    continue
                case Reduction() if chain is not None and self._can_absorb(chain, node):
                    joined = self._joined(chain, node.chain)
                    joined.outputs = []
                    values = [self.moved[value] for value in node.values]
                    node.chain, numbers = _without_unused(joined, values)
                    node.values = tuple(numbers[value] for value in values)
                    chain = None
                case _ if chain is not None and not _depends(node, chain):
                    done.append(node)
                    continue
            self._close(chain, done)
            chain = None
            done.append(node)
        self._close(chain, done)
        return done

    def _close(self, chain: Elementwise | None, done: list[Node]) -> None:
        """Keeps the outputs that something reads."""
        if chain is None:
            return
        chain.outputs = [
            output for output in chain.outputs if self.readers[output.tensor.buffer] > 0
        ]
        if chain.outputs:
            done.append(_without_unused(chain, [])[0])

    def _joined(self, first: Elementwise, second: Elementwise) -> Elementwise:
        """One chain that does both. `self.moved` tells where the values of the second went."""
        inputs: list[ChainInput] = list(first.inputs)
        written = {output.tensor: output.value for output in first.outputs}
        fresh = [
            found
            for found in second.inputs
            if not (isinstance(found, TensorView) and _match(written, found) is not None)
            and found not in inputs
        ]
        inputs += dict.fromkeys(fresh)
        shift = len(inputs) - len(first.inputs)

        def of_first(value: int) -> int:
            return value if value < len(first.inputs) else value + shift

        steps = [_renumbered(step, of_first, 0) for step in first.steps]
        self.moved: dict[int, int] = {}
        for position, found in enumerate(second.inputs):
            match = _match(written, found) if isinstance(found, TensorView) else None
            if match is not None:
                self.moved[position] = of_first(match)
            else:
                self.moved[position] = inputs.index(found)
        for position in range(len(second.steps)):
            self.moved[len(second.inputs) + position] = len(inputs) + len(first.steps) + position
        lookups = len(first.lookups)
        steps += [_renumbered(step, self.moved.__getitem__, lookups) for step in second.steps]
        for buffer in {
            found.buffer
            for found in second.inputs
            if isinstance(found, TensorView) and _match(written, found) is not None
        }:
            self.readers[buffer] -= 1
        outputs = [Output(of_first(output.value), output.tensor) for output in first.outputs]
        outputs += [Output(self.moved[output.value], output.tensor) for output in second.outputs]
        return Elementwise(
            second.location,
            first.extents,
            inputs,
            steps,
            [*first.lookups, *second.lookups],
            outputs,
        )

    def _can_absorb(self, chain: Elementwise, node: Reduction) -> bool:
        """Is the fold the only reader of what the chain computes?"""
        if not _can_join(chain, node.chain):
            return False
        read = set(node.chain.reads())
        if {found.buffer for found in node.initial} & set(chain.writes()):
            return False
        outputs = {output.tensor.buffer for output in chain.outputs}
        return all(
            self.readers[buffer] <= (1 if buffer in read else 0) for buffer in outputs
        ) and bool(outputs & read)


def _match(written: dict[TensorView, int], found: TensorView) -> int | None:
    """The value in a chain that this input would read back, element for element."""
    for tensor, value in written.items():
        if (
            tensor.buffer is found.buffer
            and tensor.strides == found.strides
            and tensor.offset == found.offset
            and tensor.offset_register == found.offset_register
            and tensor.type is found.type
        ):
            return value
    return None


def _can_join(chain: Elementwise, node: Elementwise) -> bool:
    if chain.extents != node.extents:
        return False
    if len(chain.inputs) + len(chain.steps) + len(node.inputs) + len(node.steps) > _MOST_VALUES:
        return False
    written = {output.tensor: output.value for output in chain.outputs}
    buffers = set(chain.writes())
    for found in node.inputs:
        if not isinstance(found, TensorView) or found.buffer not in buffers:
            continue
        if _match(written, found) is None:
            return False
    touched = buffers | set(chain.reads())
    if any(found.buffer in buffers for found in node.lookups):
        return False
    return not touched & set(node.writes())


def _depends(node: Node, chain: Elementwise) -> bool:
    if isinstance(node, Plain) and isinstance(node.finished, Move):
        # Only moves change a register that something may have read already.
        return True
    written = set(chain.writes())
    if written & set(node.reads()):
        return True
    return bool((written | set(chain.reads())) & set(node.writes()))


def _renumbered(step: ChainStep, number: Callable[[int], int], lookups: int) -> ChainStep:
    return ChainStep(
        step.lookup + lookups if step.lookup >= 0 else -1,
        step.op,
        step.operand,
        step.result,
        tuple(number(value) for value in step.inputs),
    )


def _without_unused(chain: Elementwise, values: list[int]) -> tuple[Elementwise, dict[int, int]]:
    """Only what gives these values and the outputs; and the new numbers of what is left."""
    first = len(chain.inputs)
    needed: set[int] = set()
    pending = [*values, *(output.value for output in chain.outputs)]
    while pending:
        value = pending.pop()
        if value in needed:
            continue
        needed.add(value)
        if value >= first:
            pending.extend(chain.steps[value - first].inputs)
    numbers = {value: number for number, value in enumerate(sorted(needed))}
    steps = [step for number, step in enumerate(chain.steps, first) if number in needed]
    looked_up = sorted({step.lookup for step in steps if step.lookup >= 0})
    lookups = {lookup: number for number, lookup in enumerate(looked_up)} | {-1: -1}
    shrunk = Elementwise(
        chain.location,
        chain.extents,
        [found for value, found in enumerate(chain.inputs) if value in needed],
        [
            replace(
                step,
                lookup=lookups[step.lookup],
                inputs=tuple(numbers[value] for value in step.inputs),
            )
            for step in steps
        ],
        [chain.lookups[lookup] for lookup in looked_up],
        [Output(numbers[output.value], output.tensor) for output in chain.outputs],
    )
    return shrunk, numbers

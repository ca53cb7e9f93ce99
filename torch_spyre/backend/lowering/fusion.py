"""Fuses elementwise nodes into chains, whose intermediate values are not in the scratchpad.

Rounding does not change: each step of a chain rounds as a separate op does. A chain is open until
a node needs its results; nodes that do not depend on it are moved before it.
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

# The values of a chain must fit in the host's L1 cache.
_MAX_VALUES = 64


def fuse(nodes: list[Node]) -> list[Node]:
    """Return the nodes of a kernel with elementwise nodes fused."""
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
        """Return the nodes of a region with elementwise nodes fused."""
        fused_nodes: list[Node] = []
        chain: Elementwise | None = None
        for node in nodes:
            match node:
                case For():
                    node.body = self.region(node.body)
                case If():
                    node.then = self.region(node.then)
                    node.otherwise = self.region(node.otherwise)
                case Elementwise() if chain is not None and _can_fuse(chain, node):
                    chain = self._fused(chain, node)
                    continue
                case Elementwise():
                    self._finish(chain, fused_nodes)
                    chain = node
                    continue
                case Reduction() if chain is not None and self._can_fuse_into(chain, node):
                    fused = self._fused(chain, node.chain)
                    fused.outputs = []
                    values = [self.second_numbers[value] for value in node.values]
                    node.chain, numbers = _without_unused(fused, values)
                    node.values = tuple(numbers[value] for value in values)
                    chain = None
                case _ if chain is not None and not _depends_on(node, chain):
                    fused_nodes.append(node)
                    continue
            self._finish(chain, fused_nodes)
            chain = None
            fused_nodes.append(node)
        self._finish(chain, fused_nodes)
        return fused_nodes

    def _finish(self, chain: Elementwise | None, fused_nodes: list[Node]) -> None:
        """Append a chain with those of its outputs that are read; drop it if there are none."""
        if chain is None:
            return
        chain.outputs = [
            output for output in chain.outputs if self.readers[output.tensor.buffer] > 0
        ]
        if chain.outputs:
            fused_nodes.append(_without_unused(chain, [])[0])

    def _fused(self, first: Elementwise, second: Elementwise) -> Elementwise:
        """Return one chain that computes both.

        `self.second_numbers` maps the numbers of values in the second chain to those in the result.
        """
        inputs: list[ChainInput] = list(first.inputs)
        written = {output.tensor: output.value for output in first.outputs}
        new_inputs = [
            entry
            for entry in second.inputs
            if not (isinstance(entry, TensorView) and _forwarded_value(written, entry) is not None)
            and entry not in inputs
        ]
        inputs += dict.fromkeys(new_inputs)
        shift = len(inputs) - len(first.inputs)

        def number_in_first(value: int) -> int:
            return value if value < len(first.inputs) else value + shift

        steps = [_renumbered(step, number_in_first, 0) for step in first.steps]
        self.second_numbers: dict[int, int] = {}
        for position, entry in enumerate(second.inputs):
            value = _forwarded_value(written, entry) if isinstance(entry, TensorView) else None
            if value is not None:
                self.second_numbers[position] = number_in_first(value)
            else:
                self.second_numbers[position] = inputs.index(entry)
        first_step = len(inputs) + len(first.steps)
        for position in range(len(second.steps)):
            self.second_numbers[len(second.inputs) + position] = first_step + position
        lookups = len(first.lookups)
        steps += [
            _renumbered(step, self.second_numbers.__getitem__, lookups) for step in second.steps
        ]
        for buffer in {
            entry.buffer
            for entry in second.inputs
            if isinstance(entry, TensorView) and _forwarded_value(written, entry) is not None
        }:
            self.readers[buffer] -= 1
        outputs = [Output(number_in_first(output.value), output.tensor) for output in first.outputs]
        outputs += [
            Output(self.second_numbers[output.value], output.tensor) for output in second.outputs
        ]
        return Elementwise(
            second.location,
            first.extents,
            inputs,
            steps,
            [*first.lookups, *second.lookups],
            outputs,
        )

    def _can_fuse_into(self, chain: Elementwise, node: Reduction) -> bool:
        """Return whether a reduction is the only reader of a chain, and can include it."""
        if not _can_fuse(chain, node.chain):
            return False
        read = set(node.chain.reads())
        if {tensor.buffer for tensor in node.initial} & set(chain.writes()):
            return False
        outputs = {output.tensor.buffer for output in chain.outputs}
        return all(
            self.readers[buffer] <= (1 if buffer in read else 0) for buffer in outputs
        ) and bool(outputs & read)


def _forwarded_value(written: dict[TensorView, int], read: TensorView) -> int | None:
    """Return the number of the value that a chain writes to exactly these elements, or None."""
    for tensor, value in written.items():
        if (
            tensor.buffer is read.buffer
            and tensor.strides == read.strides
            and tensor.offset == read.offset
            and tensor.offset_register == read.offset_register
            and tensor.type is read.type
        ):
            return value
    return None


def _can_fuse(chain: Elementwise, node: Elementwise) -> bool:
    """Return whether a node can be appended to a chain."""
    if chain.extents != node.extents:
        return False
    if len(chain.inputs) + len(chain.steps) + len(node.inputs) + len(node.steps) > _MAX_VALUES:
        return False
    written = {output.tensor: output.value for output in chain.outputs}
    buffers = set(chain.writes())
    for entry in node.inputs:
        if not isinstance(entry, TensorView) or entry.buffer not in buffers:
            continue
        if _forwarded_value(written, entry) is None:
            return False
    accessed = buffers | set(chain.reads())
    if any(lookup.buffer in buffers for lookup in node.lookups):
        return False
    return not accessed & set(node.writes())


def _depends_on(node: Node, chain: Elementwise) -> bool:
    if isinstance(node, Plain) and isinstance(node.finished, Move):
        # Only a move changes a register that the chain may read.
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
    """Return the chain with only what these values and the outputs need, and new numbers."""
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
        [entry for value, entry in enumerate(chain.inputs) if value in needed],
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

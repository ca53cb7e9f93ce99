"""Building elementwise work: values with handles, numbered when the chain is finished."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Operation, SSAValue

from torch_spyre.backend.lowering.constants import scalar_register
from torch_spyre.backend.lowering.context import KernelContext
from torch_spyre.backend.lowering.nodes import (
    ChainInput,
    Elementwise,
    IndexInput,
    Output,
    ScalarInput,
)
from torch_spyre.backend.lowering.values import Extent, Splat, TensorView, Undefined
from torch_spyre.backend.lowering.vector_ops import vector_op
from torch_spyre.backend.program.instructions import ChainStep, ElementType


@dataclass(frozen=True)
class Handle:
    """A value of a chain: an input, or the result of a step."""

    is_input: bool
    position: int
    type: ElementType


@dataclass
class _Step:
    lookup: int
    op: str
    operand: ElementType
    result: ElementType
    inputs: tuple[Handle, ...]


@dataclass
class ChainBuilder:
    kernel: KernelContext
    inputs: list[ChainInput] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    lookups: list[TensorView] = field(default_factory=list)
    values: dict[SSAValue, Handle] = field(default_factory=dict)

    def input(self, found: ChainInput, type: ElementType) -> Handle:
        if found in self.inputs:
            return Handle(True, self.inputs.index(found), type)
        self.inputs.append(found)
        return Handle(True, len(self.inputs) - 1, type)

    def scalar(self, register: int, type: ElementType) -> Handle:
        return self.input(ScalarInput(register, type), type)

    def index(self, dimension: int) -> Handle:
        return self.input(IndexInput(dimension), ElementType.I64)

    def tensor(self, found: TensorView | Splat | Undefined, strides: tuple[int, ...]) -> Handle:
        """An operand, with a stride for each dim of the iteration space."""
        match found:
            case Undefined():
                return self.scalar(self.kernel.constant(0), found.type)
            case Splat():
                return self.scalar(found.register, found.type)
            case TensorView():
                return self.input(replace(found, strides=strides), found.type)

    def step(self, op: str, operand: ElementType, result: ElementType, *inputs: Handle) -> Handle:
        self.steps.append(_Step(-1, op, operand, result, inputs))
        return Handle(False, len(self.steps) - 1, result)

    def lookup(self, found: TensorView, *coordinates: Handle) -> Handle:
        self.lookups.append(found)
        self.steps.append(
            _Step(len(self.lookups) - 1, "", ElementType.I64, found.type, coordinates)
        )
        return Handle(False, len(self.steps) - 1, found.type)

    def numbered(
        self, wanted: Sequence[Handle], kept_inputs: int = 0
    ) -> tuple[list[ChainInput], list[ChainStep], list[int]]:
        """Inputs and steps that the wanted values need, and the numbers of these values.

        The first `kept_inputs` inputs stay where they are, needed or not.
        """
        steps: set[int] = set()
        inputs = set(range(kept_inputs))
        pending = list(wanted)
        while pending:
            handle = pending.pop()
            if handle.is_input:
                inputs.add(handle.position)
            elif handle.position not in steps:
                steps.add(handle.position)
                pending.extend(self.steps[handle.position].inputs)
        input_numbers = {position: number for number, position in enumerate(sorted(inputs))}
        step_numbers = {
            position: len(inputs) + number for number, position in enumerate(sorted(steps))
        }

        def number(handle: Handle) -> int:
            return (input_numbers if handle.is_input else step_numbers)[handle.position]

        kept = [self.steps[position] for position in sorted(steps)]
        return (
            [self.inputs[position] for position in sorted(inputs)],
            [
                ChainStep(
                    step.lookup,
                    step.op,
                    step.operand,
                    step.result,
                    tuple(number(handle) for handle in step.inputs),
                )
                for step in kept
            ],
            [number(handle) for handle in wanted],
        )

    def finish(
        self, extents: tuple[Extent, ...], outputs: Sequence[tuple[Handle, TensorView]]
    ) -> Elementwise:
        inputs, steps, numbers = self.numbered([handle for handle, _ in outputs])
        return Elementwise(
            self.kernel.location,
            extents,
            inputs,
            steps,
            self.lookups,
            [Output(number, found) for number, (_, found) in zip(numbers, outputs, strict=True)],
        )

    # Regions of scalar ops

    def body(self, block: Block, arguments: list[Handle]) -> list[Handle]:
        """Applies a region to its arguments; returns what its terminator yields."""
        terminator = block.last_op
        assert terminator is not None, "regions end in a terminator"
        self.region(block, arguments, terminator)
        return [self.value(found) for found in terminator.operands]

    def region(self, block: Block, arguments: list[Handle], stop: Operation) -> None:
        """Applies the ops before `stop`."""
        self.values.update(zip(block.args, arguments, strict=True))
        self.operations(itertools.takewhile(lambda each: each is not stop, block.ops))

    def operations(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._operation(operation)

    def value(self, found: SSAValue) -> Handle:
        if found in self.values:
            return self.values[found]
        # Defined outside the region: the same for every element.
        type = self.kernel.element_type(found.type)
        self.values[found] = self.scalar(self.kernel.scalar(found), type)
        return self.values[found]

    def _operation(self, operation: Operation) -> None:
        kernel = self.kernel
        match operation:
            case IndexOp():
                self.values[operation.result] = self.index(operation.dim.value.data)
            case arith.ConstantOp():
                if not isinstance(operation.value, IntegerAttr | FloatAttr):
                    raise kernel.error(f"{operation.name} of {operation.result.type} in a region")
                type = kernel.element_type(operation.result.type)
                register = scalar_register(kernel, operation.value, type)
                self.values[operation.result] = self.scalar(register, type)
            case tensor.ExtractOp():
                found = kernel.in_memory(kernel.tensor(operation.tensor))
                coordinates = [self.value(index) for index in operation.indices]
                self.values[operation.result] = self.lookup(found, *coordinates)
            case _:
                self._vector_op(operation)

    def _vector_op(self, operation: Operation) -> None:
        found = vector_op(operation)
        if found is None or any(isinstance(v.type, TensorType) for v in operation.operands):
            raise self.kernel.error(f"{operation.name} cannot stand in its region")
        handles = [self.value(operand) for operand in found.operands]
        operand_type = self.value(found.typed_operand).type
        handles += [
            self.scalar(self.kernel.literal(bits, operand_type), operand_type)
            for bits in found.constants
        ]
        result = self.kernel.element_type(found.result.type)
        self.values[found.result] = self.step(found.name, operand_type, result, *handles)
